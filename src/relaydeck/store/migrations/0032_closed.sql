-- Whether applications see nothing of what a protection covers. Every process follows the changes by their revision.
ALTER TABLE protections ADD COLUMN closed BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE protections ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;

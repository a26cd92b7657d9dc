-- Removals up to this revision have been deleted: see store/removals.py.
ALTER TABLE clock ADD COLUMN removals_pruned_to BIGINT NOT NULL DEFAULT 0;

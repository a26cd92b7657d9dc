-- Who is trying a delivery, and until when nobody else does (milliseconds); none while nobody is. Only where processes
-- share the work row by row: elsewhere one of them has all of it.
ALTER TABLE deliveries ADD COLUMN claimed_by TEXT;
ALTER TABLE deliveries ADD COLUMN claimed_until BIGINT;

-- A claimed delivery may be tried by others when its claim has run out, any other one when it is due. Nothing dead
-- is due; that the first index says so keeps it to the question about all receivers: asked about one of them, a planner
-- that took it would pass by all that is due to the others.
DROP INDEX deliveries_due;
DROP INDEX deliveries_due_by_receiver;
CREATE INDEX deliveries_free ON deliveries (coalesce(claimed_until, due_at))
    WHERE due_at IS NOT NULL AND state <> 'dead';
CREATE INDEX deliveries_free_by_receiver ON deliveries (notification_id, coalesce(claimed_until, due_at), seq)
    WHERE due_at IS NOT NULL;

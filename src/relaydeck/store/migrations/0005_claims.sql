-- The process that attempts a delivery, and until when no other process does (milliseconds); null while unclaimed. Used
-- where processes share the deliveries; elsewhere one process makes all of them.
ALTER TABLE deliveries ADD COLUMN claimed_by TEXT;
ALTER TABLE deliveries ADD COLUMN claimed_until BIGINT;

-- A claimed delivery is free when its claim expires, any other delivery when it is due. A dead delivery is never due.
-- The condition on the state in the first index keeps planners from using it for a query about one receiver, where they
-- would walk over the due deliveries of all the others.
DROP INDEX deliveries_due;
DROP INDEX deliveries_due_by_receiver;
CREATE INDEX deliveries_free ON deliveries (coalesce(claimed_until, due_at))
    WHERE due_at IS NOT NULL AND state <> 'dead';
CREATE INDEX deliveries_free_by_receiver ON deliveries (notification_id, coalesce(claimed_until, due_at), seq)
    WHERE due_at IS NOT NULL;

-- While a receiver fails, one of its deliveries is attempted before its scheduled time (milliseconds), to probe whether the
-- receiver has recovered. null: due_at is the scheduled time.
ALTER TABLE deliveries ADD COLUMN scheduled_at BIGINT;

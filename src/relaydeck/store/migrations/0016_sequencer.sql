-- The uptime feed of each chain's sequencer; null: none. The time after an outage; null: the default.
ALTER TABLE networks ADD COLUMN sequencer_feed TEXT;
ALTER TABLE networks ADD COLUMN sequencer_grace_seconds BIGINT;

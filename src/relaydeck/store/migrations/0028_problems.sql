-- Problems that an operator has acknowledged until a moment, in seconds. A problem is known by its cause, not by a row.
CREATE TABLE acknowledgements (
    problem TEXT PRIMARY KEY,
    note TEXT NOT NULL,
    acknowledged_by TEXT NOT NULL,
    acknowledged_at BIGINT NOT NULL,
    until BIGINT NOT NULL
);
-- How the last delivery to a receiver ended.
CREATE INDEX deliveries_finished ON deliveries (notification_id, state, finished_at) WHERE finished_at IS NOT NULL;
-- When a relayer was disabled.
CREATE INDEX audit_disabled ON audit (record, moment) WHERE action = 'relayer.disabled';

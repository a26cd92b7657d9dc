-- Events in order. A sequence number is used once. An event stays when its relayer or notification is removed.
CREATE TABLE events (
    seq $serial,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    relayer_id TEXT,
    notification_id TEXT,
    data TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

-- The delivery of an event to a receiver. Times are milliseconds.
-- due_at: the time of the next attempt, 0 for the first; null while it waits for an earlier delivery, or when finished.
-- in_line: whether later events of the same relayer to the same receiver wait for it.
CREATE TABLE deliveries (
    seq BIGINT PRIMARY KEY REFERENCES events (seq) ON DELETE CASCADE,
    notification_id TEXT NOT NULL,
    relayer_id TEXT,
    state TEXT NOT NULL,
    in_line BOOLEAN NOT NULL,
    tries BIGINT NOT NULL,
    due_at BIGINT,
    finished_at BIGINT,
    revision BIGINT NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_due_by_receiver ON deliveries (notification_id, due_at, seq) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_in_line ON deliveries (notification_id, relayer_id, seq) WHERE in_line;
CREATE INDEX deliveries_by_state ON deliveries (state, seq);
CREATE INDEX deliveries_by_revision ON deliveries (revision);

-- Every attempt with its result. Times are milliseconds.
CREATE TABLE attempts (
    seq $serial,
    delivery BIGINT NOT NULL REFERENCES deliveries (seq) ON DELETE CASCADE,
    started_at BIGINT NOT NULL,
    duration BIGINT NOT NULL,
    status BIGINT,
    problem TEXT NOT NULL,
    answer TEXT NOT NULL
);
CREATE INDEX attempts_by_delivery ON attempts (delivery, seq);

-- Work that one process at a time may do. The fence counts the holders, so that writes of an earlier one are refused.
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    fence BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- The replaced signing key signs beside the new one until that time (seconds). Then it is erased.
ALTER TABLE notifications ADD COLUMN sealed_previous_key $bytes;
ALTER TABLE notifications ADD COLUMN previous_key_until BIGINT;

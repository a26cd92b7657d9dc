-- The audit log. `hash` is keyed and covers the row and the hash before it. Rows are never updated.
CREATE TABLE audit (
    seq $serial,
    moment BIGINT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    record TEXT NOT NULL,
    before_change TEXT,
    after_change TEXT,
    hash $bytes NOT NULL
);

-- The random key from which the key of the hash chain is derived.
CREATE TABLE audit_keys (
    seq $serial,
    name TEXT NOT NULL UNIQUE,
    sealed_key $bytes NOT NULL
);

-- Responses to requests with an Idempotency-Key, kept for a day. Sealed, because a response may contain a token.
CREATE TABLE idempotency_keys (
    seq $serial,
    scope TEXT NOT NULL UNIQUE,
    sealed_answer $bytes NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

-- Who changed what. `hash` is keyed and covers the row and the hash before it; nothing here is ever updated.
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

-- The random key that the chain's key is derived from.
CREATE TABLE audit_keys (
    seq $serial,
    name TEXT NOT NULL UNIQUE,
    sealed_key $bytes NOT NULL
);

-- Answers to requests that carried an Idempotency-Key, kept for a day. The answer may hold a token: it is sealed.
CREATE TABLE idempotency_keys (
    seq $serial,
    scope TEXT NOT NULL UNIQUE,
    sealed_answer $bytes NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_at);

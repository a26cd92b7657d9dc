-- Sessions of the console. The digest is the SHA-256 of the cookie; times are seconds.
CREATE TABLE console_sessions (
    seq $serial,
    digest $bytes NOT NULL UNIQUE,
    token_seq BIGINT NOT NULL REFERENCES tokens (seq) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    used_at BIGINT NOT NULL
);

-- One-time codes that open a session. A used code is removed.
CREATE TABLE console_codes (
    seq $serial,
    digest $bytes NOT NULL UNIQUE,
    token_seq BIGINT NOT NULL REFERENCES tokens (seq) ON DELETE CASCADE,
    expires_at BIGINT NOT NULL
);

-- The interface that made a change, where the actor does not show it. The hash of a row that has one covers it.
ALTER TABLE audit ADD COLUMN origin TEXT;

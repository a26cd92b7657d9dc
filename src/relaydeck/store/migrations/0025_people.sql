-- Sessions of people who signed in at an identity provider. Earlier versions do not know this table, so such a session is
-- nothing to them. The digest is the SHA-256 of the cookie; the refresh token is encrypted with a key derived from it.
CREATE TABLE person_sessions (
    seq $serial,
    digest $bytes NOT NULL UNIQUE,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    person TEXT NOT NULL,
    role TEXT NOT NULL,
    rule TEXT NOT NULL,
    sid TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at BIGINT NOT NULL,
    checked_at BIGINT NOT NULL,
    proof $bytes NOT NULL,
    encrypted_refresh_token $bytes,
    refreshing_at BIGINT NOT NULL
);
CREATE INDEX person_sessions_subject ON person_sessions (issuer, subject);

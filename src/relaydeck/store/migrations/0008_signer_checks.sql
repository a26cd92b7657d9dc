-- The latest check of each signer that was checked: whether it reached its key. checked_at is in seconds.
-- alarm: what the receivers of its relayers were told last, `unreachable` or `mismatch`; empty while all is well.
-- result: the whole check, as JSON.
CREATE TABLE signer_checks (
    signer_id TEXT PRIMARY KEY REFERENCES signers (id) ON DELETE CASCADE,
    checked_at BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    alarm TEXT NOT NULL,
    result TEXT NOT NULL
);

-- Few fail at a time, and those are counted and listed.
CREATE INDEX signer_checks_failing ON signer_checks (outcome) WHERE outcome <> 'ok';

-- What the monitor remembers of a relayer in trouble; of the others it remembers nothing. Times are seconds.
-- failed_rounds: rounds in a row in which no URL answered. evidence: what each URL did last, by scheme and host.
-- balance: the one that was too low, in Wei.
CREATE TABLE troubles (
    relayer_id TEXT PRIMARY KEY REFERENCES relayers (id) ON DELETE CASCADE,
    failed_rounds BIGINT NOT NULL,
    failing_since BIGINT,
    evidence TEXT NOT NULL,
    low_since BIGINT,
    balance TEXT,
    checked_at BIGINT NOT NULL
);

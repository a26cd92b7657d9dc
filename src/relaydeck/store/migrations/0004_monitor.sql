-- The monitor's notes on relayers in trouble; other relayers have no row. Times are seconds.
-- failed_rounds: consecutive rounds in which no URL answered. evidence: the last result of each URL, by scheme and host.
-- balance: the balance that was too low, in Wei.
CREATE TABLE troubles (
    relayer_id TEXT PRIMARY KEY REFERENCES relayers (id) ON DELETE CASCADE,
    failed_rounds BIGINT NOT NULL,
    failing_since BIGINT,
    evidence TEXT NOT NULL,
    low_since BIGINT,
    balance TEXT,
    checked_at BIGINT NOT NULL
);

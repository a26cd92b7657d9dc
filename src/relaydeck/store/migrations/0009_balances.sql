-- Balance history. A row is a period in which a relayer's balance stayed the same: `since` is when it was first seen,
-- `until` when it was last confirmed, which happens at least once an hour. Times are seconds, amounts are Wei.
-- spent: everything the balance has fallen by since the first row. It survives the removal of rows in between, so what
-- was spent and what was received between any two rows stays exact.
CREATE TABLE balances (
    relayer_seq BIGINT NOT NULL REFERENCES relayers (seq) ON DELETE CASCADE,
    since BIGINT NOT NULL,
    until BIGINT NOT NULL,
    balance TEXT NOT NULL,
    spent TEXT NOT NULL,
    PRIMARY KEY (relayer_seq, since)
);

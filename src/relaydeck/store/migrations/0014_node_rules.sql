-- What a network requires of its nodes' answers: how far one may be behind, how far its price may differ from the
-- others', and how many must agree. Null: the value that Relaydeck ships with.
ALTER TABLE networks ADD COLUMN max_lag_blocks BIGINT;
ALTER TABLE networks ADD COLUMN price_factor BIGINT;
ALTER TABLE networks ADD COLUMN quorum BIGINT;

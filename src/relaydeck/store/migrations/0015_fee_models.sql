-- What each chain charges. Tips are Wei per gas; null: no bound.
ALTER TABLE networks ADD COLUMN fee_model TEXT NOT NULL DEFAULT 'ethereum';
ALTER TABLE networks ADD COLUMN tip_floor BIGINT;
ALTER TABLE networks ADD COLUMN tip_ceiling BIGINT;
ALTER TABLE networks ADD COLUMN gas_limit_cap BIGINT;

-- What a network declares about its chain; null: what is known about the chain.
ALTER TABLE networks ADD COLUMN block_seconds TEXT;
ALTER TABLE networks ADD COLUMN base_fee_rule TEXT;
ALTER TABLE networks ADD COLUMN base_fee_denominator BIGINT;
ALTER TABLE networks ADD COLUMN base_fee_elasticity BIGINT;
ALTER TABLE networks ADD COLUMN gas_margin_percent BIGINT;

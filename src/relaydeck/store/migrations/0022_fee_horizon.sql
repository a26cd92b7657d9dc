-- How many full blocks the estimated fee of a network covers; null: none, it is the fee of the next block.
ALTER TABLE networks ADD COLUMN fee_horizon_blocks BIGINT;

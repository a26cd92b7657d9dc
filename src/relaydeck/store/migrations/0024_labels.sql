-- The labels of a record as compact JSON, in which the list filter and scopes look for a pair; null: none.
ALTER TABLE networks ADD COLUMN labels TEXT;
ALTER TABLE signers ADD COLUMN labels TEXT;
ALTER TABLE notifications ADD COLUMN labels TEXT;
ALTER TABLE relayers ADD COLUMN labels TEXT;

-- The version of the sealed values of a row: see store/sealed_columns.py. The program seals the stored values again.
ALTER TABLE networks ADD COLUMN secret_version BIGINT NOT NULL DEFAULT 0;
ALTER TABLE signers ADD COLUMN secret_version BIGINT NOT NULL DEFAULT 0;
ALTER TABLE notifications ADD COLUMN secret_version BIGINT NOT NULL DEFAULT 0;
ALTER TABLE relayers ADD COLUMN secret_version BIGINT NOT NULL DEFAULT 0;

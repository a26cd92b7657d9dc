-- A keyed hash of the row, under a key derived from the master key: see store/sealing.py. The service refuses a
-- token without a proof that holds.
ALTER TABLE tokens ADD COLUMN proof $bytes;

-- The end of the audit log, with a proof. Every transaction that appends to the log writes it.
ALTER TABLE clock ADD COLUMN audit_head $bytes;

-- A session or code without a proof that holds opens nothing.
ALTER TABLE console_sessions ADD COLUMN proof $bytes;
ALTER TABLE console_codes ADD COLUMN proof $bytes;

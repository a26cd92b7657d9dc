-- The SHA-256 of the statements of the step, in hexadecimal; null for a step that was applied before this one, until
-- the program records it.
ALTER TABLE schema_versions ADD COLUMN checksum TEXT;

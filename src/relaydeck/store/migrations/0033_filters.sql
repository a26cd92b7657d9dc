-- The entries about a record, the events about a relayer, and relayers by their labels, of which an entry has the beginning.
CREATE INDEX audit_by_record ON audit (record, seq);
CREATE INDEX events_by_relayer ON events (relayer_id, seq);
CREATE INDEX relayers_by_labels ON relayers (substr(labels, 1, 400)) WHERE labels IS NOT NULL;

-- At which revision tables without revisions were last written: what the monitor and the checks of signers measure.
ALTER TABLE clock ADD COLUMN balances_written BIGINT NOT NULL DEFAULT 0;
ALTER TABLE clock ADD COLUMN runways_written BIGINT NOT NULL DEFAULT 0;
ALTER TABLE clock ADD COLUMN troubles_written BIGINT NOT NULL DEFAULT 0;
ALTER TABLE clock ADD COLUMN signer_checks_written BIGINT NOT NULL DEFAULT 0;

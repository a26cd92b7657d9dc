-- Whether a command on the server's machine set the signer. Its key system may then have a private address. The audit
-- log knows it of the stored ones.
ALTER TABLE signers ADD COLUMN set_locally BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE signers SET set_locally = TRUE WHERE id IN (
    SELECT record FROM audit WHERE substr(actor, 1, 4) = 'cli:' AND seq IN (
        SELECT max(seq) FROM audit WHERE action = 'signer.created' GROUP BY record
    )
);

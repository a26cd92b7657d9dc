-- Proves who made a token. Earlier versions neither read nor write it: to them, the row is proven as before.
ALTER TABLE tokens ADD COLUMN made_by_proof $bytes;

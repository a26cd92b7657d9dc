-- What an operator wants to know about a token. None of it decides what the token may do: `kind` does, and is proven.
ALTER TABLE tokens ADD COLUMN purpose TEXT;
ALTER TABLE tokens ADD COLUMN made_by TEXT;
ALTER TABLE tokens ADD COLUMN last_used_at BIGINT;
ALTER TABLE tokens ADD COLUMN last_used_from TEXT;

-- A relayer is found by the beginning of its id, name or address, and by the end of its address.
CREATE INDEX relayers_by_folded_id ON relayers (lower(id));
CREATE INDEX relayers_by_folded_name ON relayers (lower(name));
CREATE INDEX relayers_by_folded_address ON relayers (lower(address));
CREATE INDEX relayers_by_address_end ON relayers (substr(lower(address), 39));

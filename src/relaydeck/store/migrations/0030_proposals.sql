-- Which records are protected: their changes need two. `kinds` and `scope` are JSON; the scope is NULL for every record.
CREATE TABLE protections (
    seq $serial,
    name TEXT NOT NULL UNIQUE,
    kinds TEXT NOT NULL,
    scope TEXT,
    note TEXT NOT NULL,
    made_by TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
-- Changes that wait for an approval, and those that were decided. The request may contain secrets: it is sealed, and NULL
-- once it is of no more use. `plan` and `protections` are JSON.
CREATE TABLE proposals (
    seq $serial,
    id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    operation TEXT NOT NULL,
    plan TEXT NOT NULL,
    protections TEXT NOT NULL,
    revision TEXT NOT NULL,
    author TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    sealed_request $bytes,
    decided_by TEXT,
    decided_at BIGINT,
    decision TEXT NOT NULL
);
CREATE INDEX proposals_open ON proposals (expires_at) WHERE state = 'open';

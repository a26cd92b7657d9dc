-- Every write transaction takes the next revision first, so that transactions commit in the order of their revisions.
CREATE TABLE clock (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    revision BIGINT NOT NULL
);
INSERT INTO clock (only_row, revision) VALUES (1, 0);

-- Keys that seal the secrets below, each wrapped by the master key. The key with the greatest id seals new values.
CREATE TABLE data_keys (
    id $serial,
    wrapped $bytes NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE tokens (
    seq $serial,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    digest $bytes NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    revision BIGINT NOT NULL
);
CREATE UNIQUE INDEX one_live_token_per_name ON tokens (name) WHERE revoked_at IS NULL;
CREATE INDEX tokens_by_revision ON tokens (revision);

CREATE TABLE networks (
    seq $serial,
    name TEXT NOT NULL UNIQUE,
    network_type TEXT NOT NULL,
    chain_id BIGINT NOT NULL,
    native_symbol TEXT NOT NULL,
    sealed_rpc_urls $bytes,
    fee_tokens TEXT NOT NULL,
    origin TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revision BIGINT NOT NULL
);

CREATE TABLE signers (
    seq $serial,
    id TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL,
    open_config TEXT NOT NULL,
    sealed_config $bytes NOT NULL,
    origin TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revision BIGINT NOT NULL
);
CREATE INDEX signers_by_revision ON signers (revision);

CREATE TABLE notifications (
    seq $serial,
    id TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL,
    url TEXT NOT NULL,
    sealed_signing_key $bytes,
    origin TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revision BIGINT NOT NULL
);

CREATE TABLE relayers (
    seq $serial,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    network TEXT NOT NULL REFERENCES networks (name),
    network_type TEXT NOT NULL,
    address TEXT NOT NULL,
    signer_id TEXT NOT NULL REFERENCES signers (id),
    notification_id TEXT REFERENCES notifications (id),
    paused BOOLEAN NOT NULL,
    system_disabled BOOLEAN NOT NULL,
    disabled_reason TEXT,
    sealed_rpc_urls $bytes,
    policies TEXT NOT NULL,
    origin TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revision BIGINT NOT NULL
);
CREATE INDEX relayers_by_revision ON relayers (revision);
CREATE INDEX relayers_by_network ON relayers (network);
CREATE INDEX relayers_by_signer ON relayers (signer_id);
CREATE INDEX relayers_by_notification ON relayers (notification_id);

-- Removed records, so that processes can remove them from their read models.
CREATE TABLE removals (
    revision BIGINT NOT NULL,
    resource TEXT NOT NULL,
    seq BIGINT NOT NULL
);
CREATE INDEX removals_by_revision ON removals (revision);

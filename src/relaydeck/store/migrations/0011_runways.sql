-- At how many hours of runway the monitor warns; null: the network's value, or else the service's.
ALTER TABLE relayers ADD COLUMN runway_warn_hours BIGINT;
ALTER TABLE networks ADD COLUMN runway_warn_hours BIGINT;

-- The latest forecast of each relayer that has spent something. Times are seconds.
-- minimum_at: when the balance is expected to reach min_balance; null while that is not known.
-- low_since: since when a warning is in force.
CREATE TABLE runways (
    relayer_seq BIGINT PRIMARY KEY REFERENCES relayers (seq) ON DELETE CASCADE,
    computed_at BIGINT NOT NULL,
    minimum_at BIGINT,
    low_since BIGINT
);
CREATE INDEX runways_first ON runways (minimum_at) WHERE minimum_at IS NOT NULL;
CREATE INDEX runways_low ON runways (low_since) WHERE low_since IS NOT NULL;

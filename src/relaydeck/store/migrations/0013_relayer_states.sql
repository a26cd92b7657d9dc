-- Few relayers are paused or disabled at a time, and each scrape of the metrics counts them.
CREATE INDEX relayers_paused ON relayers (network) WHERE paused;
CREATE INDEX relayers_disabled ON relayers (network) WHERE system_disabled;

-- The URL of a webhook that contains credentials; `url` then has its scheme, host and port only. The program seals the
-- stored ones.
ALTER TABLE notifications ADD COLUMN sealed_url $bytes;
ALTER TABLE notifications ADD COLUMN url_version BIGINT NOT NULL DEFAULT 0;

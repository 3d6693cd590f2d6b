-- Two payloads are equal when their digests are: jsonb has already sorted the keys and dropped the spaces.
-- sha256, because md5 is missing on servers hardened to FIPS.
CREATE OR REPLACE FUNCTION @schema@.digest_of(_payload jsonb) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN sha256(convert_to(_payload::text, 'UTF8'));

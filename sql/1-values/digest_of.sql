-- Two payloads are equal when their digests are. They are those of the text that jsonb stores: the keys are sorted and
-- the spaces gone, but a number keeps the digits it was written with. So 1 and 1.0 are two payloads, though jsonb's `=`
-- calls them equal: a handler gets the stored text, and of two that differ none is dropped.
-- sha256, because md5 is missing on servers hardened to FIPS.
CREATE OR REPLACE FUNCTION @schema@.digest_of(_payload jsonb) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN sha256(convert_to(_payload::text, 'UTF8'));

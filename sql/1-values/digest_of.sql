-- Two payloads are equal if their digests are equal. The digest is that of the text that jsonb stores: its keys are
-- sorted and the spaces gone, but a number keeps the digits it was written with. So 1 and 1.0 are two payloads,
-- although jsonb's `=` calls them equal: a handler gets the stored text, and of two texts that differ none is dropped.
-- It is sha256, because servers hardened to FIPS have no md5.
-- (STABLE, as convert_to is: otherwise each call would be a call.)
CREATE OR REPLACE FUNCTION @schema@.digest_of(_payload jsonb) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
RETURN sha256(convert_to(_payload::text, 'UTF8'));

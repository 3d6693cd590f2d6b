-- digest_of the payload of the job with this index in a push. Refuses a payload over the limit. The payload is an
-- element of an array, and those are never compressed.
--
-- The limit applies to the JSON text. The size of the jsonb says little about that: small numbers take six times as
-- many bytes in jsonb, and a large number may have 131,072 digits in 16 bytes. The text that Postgres writes has a
-- space after each comma, so half as much again is allowed: that lets through every payload that might keep to the
-- limit without these spaces. The text of an element never has more than 9,217 bytes for each byte of its jsonb, so a
-- payload below 1,300 bytes can't be over the limit. Making the text of a larger one is most of the work, so it is made
-- once, for both the limit and the digest.
-- (STABLE, as pg_column_size is: otherwise each call would be a call.)
CREATE OR REPLACE FUNCTION @schema@.pushed_digest(_payload jsonb, _index bigint) RETURNS bytea
LANGUAGE sql STABLE
RETURN sha256(convert_to(CASE WHEN pg_column_size(_payload) > 1300 THEN @schema@.checked_text(_payload, _index) ELSE _payload::text END, 'UTF8'));

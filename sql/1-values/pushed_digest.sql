-- digest_of the payload of the job with this index in a push; refuses one beyond the limit. It is an element of an array:
-- those are never compressed.
--
-- The limit is that of the JSON text. As jsonb it is another size, which says little: small numbers take six times as
-- many bytes, and a large one has 131,072 digits in 16. The text that Postgres writes has a space after each comma: half
-- as much again lets pass what the limit might be kept by. Of no element it has more than 9,217 bytes for each of its
-- own, so what is smaller than 1,300 can't exceed it. To make it is most of the work: of what is larger, it is made once
-- for the limit and the digest.
CREATE OR REPLACE FUNCTION @schema@.pushed_digest(_payload jsonb, _index bigint) RETURNS bytea
LANGUAGE sql STABLE
RETURN CASE
  WHEN pg_column_size(_payload) > 1300 THEN @schema@.measured_digest(_payload, _index)
  ELSE @schema@.digest_of(_payload)
END;

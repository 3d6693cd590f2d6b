-- What is wrong with a job to be pushed, as the text after `jobs[index].`; NULL if nothing is. The size of the payload
-- is checked where its text is made: only for those that may be over the limit (see pushed_digest). 24 KiB of
-- headers take up to 96 KiB of jsonb, since each `1, ` takes 12 bytes; and of 100,000 bytes Postgres can still make the
-- text, which is up to 922 MB.
CREATE OR REPLACE FUNCTION @schema@.problem_of(
  _id text,
  _payload jsonb,
  _score double precision,
  _perform_in timestamptz,
  _lane smallint,
  _headers jsonb
) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
  WHEN _id IS NULL OR _id = '' THEN 'id is required and must not be empty'
  WHEN octet_length(_id) > 1024 THEN format('id must be at most 1,024 bytes, not %s', octet_length(_id))
  WHEN _score IN ('NaN', 'Infinity', '-Infinity') THEN 'score must be a finite number'
  WHEN NOT isfinite(_perform_in) OR _perform_in >= '10000-01-01 00:00:00+00'
    THEN 'perform_in must be a finite time before the year 10000'
  WHEN _lane < 0 THEN 'lane must be a whole number from 0 to 32767'
  WHEN jsonb_typeof(_headers) <> 'object' THEN 'headers must be a JSON object'
  WHEN pg_column_size(_headers) > 100000 OR octet_length(_headers::text) > 24576
    THEN 'headers must be at most 16 KiB, or 24 KiB with its numbers written out: put large data into the payload'
END;

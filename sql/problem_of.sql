-- What is wrong with a job that is to be pushed, after its name; NULL: nothing.
CREATE OR REPLACE FUNCTION @schema@.problem_of(
  _id text,
  _payload jsonb,
  _score double precision,
  _perform_in timestamptz,
  _lane smallint
) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
  WHEN _id IS NULL OR _id = '' THEN 'id is required and must not be empty'
  WHEN octet_length(_id) > 1024 THEN format('id must be at most 1,024 bytes, not %s', octet_length(_id))
  WHEN pg_column_size(_payload) > 8388608 AND octet_length(_payload::text) > 12582912 THEN 'payload must be at most 8 MiB: store large data elsewhere and push a reference to it'
  WHEN _score IN ('NaN', 'Infinity', '-Infinity') THEN 'score must be a finite number'
  WHEN NOT isfinite(_perform_in) OR _perform_in >= '10000-01-01 00:00:00+00'
    THEN 'perform_in must be a finite time before the year 10000'
  WHEN _lane < 0 THEN 'lane must be a whole number from 0 to 32767'
END;

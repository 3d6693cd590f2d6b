-- digest_of a payload that may be beyond the limit, of the job with this index in a push: refuses it where its text is
-- (see pushed_digest). Postgres makes no text beyond 1 GB.
CREATE OR REPLACE FUNCTION @schema@.measured_digest(_payload jsonb, _index bigint) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  _text pg_catalog.text;
BEGIN
  BEGIN
    _text := _payload::text;
  EXCEPTION WHEN program_limit_exceeded THEN
  END;
  IF octet_length(_text) <= 12582912 THEN
    RETURN sha256(convert_to(_text, 'UTF8'));
  END IF;
  RAISE EXCEPTION 'jobs[%].payload must be at most 8 MiB, or 12 MiB with its numbers written out: %', _index,
    'store large data elsewhere and push a reference to it' USING ERRCODE = 'LK002';
END
$$;

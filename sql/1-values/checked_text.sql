-- The text of a payload that may be over the limit; `_index` is the index of its job in the push. Refuses the payload if
-- its text is too long (see pushed_digest), or can't be made: Postgres makes no text of more than 1 GB.
CREATE OR REPLACE FUNCTION @schema@.checked_text(_payload jsonb, _index bigint) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  _text pg_catalog.text;
BEGIN
  BEGIN
    _text := _payload::text;
  EXCEPTION WHEN program_limit_exceeded THEN
  END;
  IF octet_length(_text) <= 12582912 THEN
    RETURN _text;
  END IF;
  RAISE EXCEPTION 'jobs[%].payload must be at most 8 MiB, or 12 MiB with its numbers written out: %', _index,
    'store large data elsewhere and push a reference to it' USING ERRCODE = 'LK002';
END
$$;

-- Rejects a bad job by its index and field before anything is stored, whatever the caller's language.
--
-- The limit of a payload is that of its JSON text. As jsonb it is another size, up to six times as many bytes, and
-- written out again it has a space after each comma: the server lets pass what the limit might be kept by.
-- Times beyond the year 9999 are beyond what microseconds since 1970 and other languages' dates can hold.
CREATE OR REPLACE FUNCTION @schema@.check_jobs(
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[]
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  _bad pg_catalog.record;
BEGIN
  SELECT i.position - 1 AS index, f.problem INTO _bad
  FROM unnest(_ids, _payloads, _scores, _perform_ins, _lanes) WITH ORDINALITY
    AS i(id, payload, score, perform_in, lane, position)
  CROSS JOIN LATERAL (SELECT CASE
    WHEN i.id IS NULL OR i.id = '' THEN 'id is required and must not be empty'
    WHEN octet_length(i.id) > 1024 THEN format('id must be at most 1,024 bytes, not %s', octet_length(i.id))
    WHEN pg_column_size(i.payload) > 8388608 AND octet_length(i.payload::text) > 12582912 THEN 'payload must be at most 8 MiB: store large data elsewhere and push a reference to it'
    WHEN i.score IN ('NaN', 'Infinity', '-Infinity') THEN 'score must be a finite number'
    WHEN NOT isfinite(i.perform_in) OR i.perform_in >= '10000-01-01 00:00:00+00'
      THEN 'perform_in must be a finite time before the year 10000'
    WHEN i.lane < 0 THEN 'lane must be a whole number from 0 to 32767'
  END AS problem) f
  WHERE f.problem IS NOT NULL
  ORDER BY i.position LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'jobs[%].%', _bad.index, _bad.problem USING ERRCODE = 'LK002';
  END IF;
END
$$;

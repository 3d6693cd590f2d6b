-- Rejects a bad job by its index and field before anything is stored, whatever the caller's language. How large a
-- payload is shows when its text is made, for its digest (see pushed_digest).
--
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
  SELECT i.position - 1 AS index, i.problem INTO _bad
  FROM (
    SELECT t.position, @schema@.problem_of(t.id, t.payload, t.score, t.perform_in, t.lane) AS problem
    FROM unnest(_ids, _payloads, _scores, _perform_ins, _lanes) WITH ORDINALITY
      AS t(id, payload, score, perform_in, lane, position)
  ) i
  WHERE i.problem IS NOT NULL
  ORDER BY i.position LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'jobs[%].%', _bad.index, _bad.problem USING ERRCODE = 'LK002';
  END IF;
END
$$;

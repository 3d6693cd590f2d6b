-- Rejects a bad job with its index and field before anything is stored, whatever the caller's language. The size of a
-- payload shows only when its text is made (see pushed_digest).
--
-- Microseconds since 1970 and the dates of other languages can't hold times after the year 9999.
CREATE OR REPLACE FUNCTION @schema@.check_jobs(
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[],
  _headers jsonb[]
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  _bad pg_catalog.record;
BEGIN
  SELECT i.position - 1 AS index, i.problem INTO _bad
  FROM (
    SELECT t.position, @schema@.problem_of(t.id, t.payload, t.score, t.perform_in, t.lane, t.headers) AS problem
    FROM unnest(_ids, _payloads, _scores, _perform_ins, _lanes, _headers) WITH ORDINALITY
      AS t(id, payload, score, perform_in, lane, headers, position)
  ) i
  WHERE i.problem IS NOT NULL
  ORDER BY i.position LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'jobs[%].%', _bad.index, _bad.problem USING ERRCODE = 'LK002';
  END IF;
END
$$;

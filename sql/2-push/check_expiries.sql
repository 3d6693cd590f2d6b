-- Rejects the first job whose expiry can't be kept, as check_jobs does for what all jobs have.
CREATE OR REPLACE FUNCTION @schema@.check_expiries(_expires_ins timestamptz[], _perform_ins timestamptz[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  _bad pg_catalog.record;
BEGIN
  SELECT i.position - 1 AS index, i.problem INTO _bad
  FROM (
    SELECT t.position, @schema@.problem_of_expiry(t.expires_in, t.perform_in) AS problem
    FROM unnest(_expires_ins, _perform_ins) WITH ORDINALITY AS t(expires_in, perform_in, position)
  ) i
  WHERE i.problem IS NOT NULL
  ORDER BY i.position LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'jobs[%].%', _bad.index, _bad.problem USING ERRCODE = 'LK002';
  END IF;
END
$$;

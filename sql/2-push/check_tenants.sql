-- As check_jobs, for tenants.
CREATE OR REPLACE FUNCTION @schema@.check_tenants(_tenants text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  _bad pg_catalog.record;
BEGIN
  SELECT i.position - 1 AS index, @schema@.problem_of_tenant(i.tenant) AS problem INTO _bad
  FROM unnest(_tenants) WITH ORDINALITY AS i(tenant, position)
  WHERE @schema@.problem_of_tenant(i.tenant) IS NOT NULL
  ORDER BY i.position LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'jobs[%].%', _bad.index, _bad.problem USING ERRCODE = 'LK002';
  END IF;
END
$$;

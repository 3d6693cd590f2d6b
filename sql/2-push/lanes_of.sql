-- The lanes of jobs to be pushed into a queue. One that names a lane has it, and counts for no rule. One without a tenant has
-- lane 0. In a queue without rules, a tenant has a lane of its own (see tenant_lane).
--
-- A rule { over, per, lane } matches if a tenant has pushed more than `over` jobs within the last `per` seconds, this one
-- included. All rules are looked at, and the last that matches decides; if none does, it's lane 0. Of several jobs of a tenant
-- in one call, the first is counted first.
--
-- Pushes are noted by an INSERT, so that transactions which push for one tenant never wait for each other, and what is rolled
-- back doesn't count. Nor does what others have not committed yet. Of a tenant's pushes, the newest are read first, and no
-- more than decide: each row stands for one push at least.
CREATE OR REPLACE FUNCTION @schema@.lanes_of(_queue_id integer, _fairness jsonb, _tenants text[], _lanes smallint[])
RETURNS smallint[]
LANGUAGE plpgsql AS $$
DECLARE
  _now constant pg_catalog.timestamptz := clock_timestamp();
  _names pg_catalog.text[];
  _found pg_catalog.int2[];
BEGIN
  IF _fairness IS NULL THEN
    _names := ARRAY(
      SELECT DISTINCT i.tenant COLLATE "C" FROM unnest(_tenants, _lanes) AS i(tenant, lane)
      WHERE i.tenant <> '' AND i.lane IS NULL ORDER BY 1
    );
    _found := @schema@.give_tenant_lanes(_queue_id, _names);
    -- A join would compare each job with each tenant.
    RETURN ARRAY(
      SELECT coalesce(i.lane, CASE WHEN i.tenant <> '' THEN _found[i.nth] END, 0::pg_catalog.int2)
      FROM (
        SELECT u.*, dense_rank() OVER (PARTITION BY u.tenant <> '' AND u.lane IS NULL ORDER BY u.tenant COLLATE "C") AS nth
        FROM unnest(_tenants, _lanes) WITH ORDINALITY AS u(tenant, lane, position)
      ) i
      ORDER BY i.position
    );
  END IF;

  WITH counting AS MATERIALIZED (
    SELECT g.positions, ARRAY(
      SELECT (
        SELECT coalesce(sum(r.pushes), 0) FROM (
          SELECT p.pushes FROM @schema@.tenant_pushes p
          WHERE p.queue_id = _queue_id AND p.tenant = g.tenant
            AND p.pushed_at >= _now - (e.rule->>'per')::pg_catalog.float8 * interval '1 s'
          ORDER BY p.pushed_at DESC LIMIT (e.rule->>'over')::pg_catalog.int8 + 1
        ) r
      )
      FROM jsonb_array_elements(_fairness->'rules') WITH ORDINALITY AS e(rule, n) ORDER BY e.n
    ) AS pushed
    FROM (
      SELECT i.tenant COLLATE "C" AS tenant, array_agg(i.position ORDER BY i.position) AS positions
      FROM unnest(_tenants, _lanes) WITH ORDINALITY AS i(tenant, lane, position)
      WHERE i.lane IS NULL AND i.tenant <> '' GROUP BY 1
    ) g
  ), decided AS (
    SELECT p.position, (
      SELECT (e.rule->>'lane')::pg_catalog.int2 FROM jsonb_array_elements(_fairness->'rules') WITH ORDINALITY AS e(rule, n)
      WHERE c.pushed[e.n] + p.nth > (e.rule->>'over')::pg_catalog.int8 ORDER BY e.n DESC LIMIT 1
    ) AS lane
    FROM counting c CROSS JOIN LATERAL unnest(c.positions) WITH ORDINALITY AS p(position, nth)
    UNION ALL
    SELECT i.position, i.lane FROM unnest(_tenants, _lanes) WITH ORDINALITY AS i(tenant, lane, position)
    WHERE i.lane IS NOT NULL OR coalesce(i.tenant, '') = ''
  )
  SELECT array_agg(coalesce(d.lane, 0::pg_catalog.int2) ORDER BY d.position) INTO _found FROM decided d;

  INSERT INTO @schema@.tenant_pushes (pushed_at, queue_id, pushes, tenant)
  SELECT _now, _queue_id, count(*), i.tenant FROM unnest(_tenants, _lanes) AS i(tenant, lane)
  WHERE i.tenant <> '' AND i.lane IS NULL GROUP BY i.tenant;
  RETURN _found;
END
$$;

-- Notes how long the first jobs of tenants have been due, in seconds, 1 for those that are not late and 0 where there are none, and
-- which tenant's jobs fill the lane, for pushes of others (see tenant_lane): for each queue, 32 of both, those of the lanes -1, -2
-- and so on. Of a name, its hash is kept: each push of a tenant reads some of these rows, so they must be small.
--
-- It runs with its owner's rights, for the workers' role.
CREATE OR REPLACE FUNCTION @schema@.note_tenant_waits(_queue_ids integer[], _waits integer[], _tenants text[]) RETURNS void
LANGUAGE sql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  INSERT INTO @schema@.tenant_waits (told_at, queue_id, waits, tenants)
  SELECT clock_timestamp(), e.queue_id, _waits[32 * (e.n - 1) + 1 : 32 * e.n], (
    SELECT array_agg(CASE WHEN t.tenant = '' THEN '' ELSE hashtext(t.tenant COLLATE "C")::text END ORDER BY t.n)
    FROM unnest(_tenants[32 * (e.n - 1) + 1 : 32 * e.n]) WITH ORDINALITY AS t(tenant, n)
  )
  FROM unnest(_queue_ids) WITH ORDINALITY AS e(queue_id, n)
$$;
REVOKE ALL ON FUNCTION @schema@.note_tenant_waits FROM PUBLIC;

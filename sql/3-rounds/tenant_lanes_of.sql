-- The lanes that tenants of each queue have (see tenant_lane). Workers poll lanes that they know, and a push sends no wake-up while
-- they are busy: so a tenant that comes is known at once. It jumps from one lane to the next in the index, however many
-- tenants share one, and reads the newest row of each, which is never dead (see trim_tenant_lanes). It runs with its owner's rights: the tenants themselves are none of a worker's business.
CREATE OR REPLACE FUNCTION @schema@.tenant_lanes_of(_queue_ids integer[]) RETURNS TABLE (queue_id integer, lane smallint)
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
@lookups@ SET enable_sort = off
AS $$
BEGIN
  RETURN QUERY
  SELECT e.queue_id, l.lane FROM unnest(_queue_ids) AS e(queue_id)
  CROSS JOIN LATERAL (
    WITH RECURSIVE lanes (lane, tenant) AS (
      (
        SELECT t.lane, t.tenant FROM @schema@.tenant_lanes t
        WHERE t.queue_id = e.queue_id ORDER BY t.lane DESC, t.number DESC LIMIT 1
      )
      UNION ALL
      SELECT n.lane, n.tenant FROM lanes p CROSS JOIN LATERAL (
        SELECT t.lane, t.tenant FROM @schema@.tenant_lanes t
        WHERE t.queue_id = e.queue_id AND t.lane < p.lane ORDER BY t.lane DESC, t.number DESC LIMIT 1
      ) n
    )
    SELECT n.lane FROM lanes n WHERE n.tenant <> ''
  ) l;
END
$$;

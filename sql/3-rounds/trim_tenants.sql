-- Deletes what no longer decides on a tenant's lane, and returns how many rows: pushes that are older than the longest window, or
-- of a queue without rules; and lanes that are given back (see trim_tenant_lanes). Does no more than `_most` of each.
--
-- It runs with its owner's rights, for the workers' role.
CREATE OR REPLACE FUNCTION @schema@.trim_tenants(_most integer DEFAULT 10000) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _now constant pg_catalog.timestamptz := clock_timestamp();
  _pushes bigint;
BEGIN
  DELETE FROM @schema@.tenant_pushes p
  USING (
    SELECT o.queue_id, o.ctid AS tid FROM @schema@.tenant_pushes o LEFT JOIN @schema@.queues q USING (queue_id)
    WHERE q.fairness IS NULL OR o.pushed_at < _now - (q.fairness->>'window')::pg_catalog.float8 * interval '1 s'
    LIMIT _most
  ) e
  WHERE p.queue_id + 0 = e.queue_id AND p.ctid = e.tid;
  GET DIAGNOSTICS _pushes = ROW_COUNT;
  RETURN _pushes + @schema@.trim_tenant_lanes(_most, '{}');
END
$$;
REVOKE ALL ON FUNCTION @schema@.trim_tenants FROM PUBLIC;

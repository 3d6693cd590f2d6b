-- Deletes what no longer decides on a tenant's lane, and returns how many rows: pushes that are older than the longest window, or
-- of a queue without rules; and lanes of tenants that have been given back, since nothing waits in them, or an hour has
-- passed: then their tenants get others, and those that shared one by chance part. Does no more than `_most` of each.
-- A push may be about to use a lane that is deleted here. Then its tenant's jobs wait in two, which harms nothing.
--
-- It runs with its owner's rights, for the workers' role.
CREATE OR REPLACE FUNCTION @schema@.trim_tenants(_most integer DEFAULT 10000) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _now constant pg_catalog.timestamptz := clock_timestamp();
  _pushes bigint;
  _lanes bigint;
BEGIN
  DELETE FROM @schema@.tenant_pushes p
  USING (
    SELECT o.queue_id, o.ctid AS tid FROM @schema@.tenant_pushes o LEFT JOIN @schema@.queues q USING (queue_id)
    WHERE q.fairness IS NULL OR o.pushed_at < _now - (q.fairness->>'window')::pg_catalog.float8 * interval '1 s'
    LIMIT _most
  ) e
  WHERE p.queue_id + 0 = e.queue_id AND p.ctid = e.tid;
  GET DIAGNOSTICS _pushes = ROW_COUNT;
  WITH busy AS MATERIALIZED (
    SELECT l.queue_id, l.lane FROM (SELECT DISTINCT t.queue_id, t.lane FROM @schema@.tenant_lanes t) l
    JOIN @schema@.queues q ON q.queue_id = l.queue_id AND q.fairness IS NULL
    WHERE EXISTS (
      SELECT FROM generate_series(0, q.shards - 1) AS s(shard) CROSS JOIN LATERAL (
        SELECT FROM @schema@.jobs j WHERE j.queue_id = l.queue_id AND j.shard = s.shard AND j.lane = l.lane LIMIT 1
      ) j
    )
  )
  DELETE FROM @schema@.tenant_lanes t
  USING (
    SELECT o.queue_id, o.ctid AS tid FROM @schema@.tenant_lanes o LEFT JOIN busy b USING (queue_id, lane)
    WHERE o.given_at < _now - CASE WHEN b.lane IS NULL THEN interval '1 minute' ELSE interval '1 hour' END
    LIMIT _most
  ) e
  WHERE t.queue_id + 0 = e.queue_id AND t.ctid = e.tid;
  GET DIAGNOSTICS _lanes = ROW_COUNT;
  RETURN _pushes + _lanes;
END
$$;
REVOKE ALL ON FUNCTION @schema@.trim_tenants FROM PUBLIC;

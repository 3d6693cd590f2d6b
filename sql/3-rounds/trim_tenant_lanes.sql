-- Gives back lanes of tenants, and returns how many: a minute after they were given if nothing is in them, and after an hour
-- otherwise: then their tenants get others, and those that shared one by chance part. Does no more than `_most`.
-- A push may be about to use a lane that is deleted here. Then its tenant's jobs wait in two, which harms nothing.
--
-- It runs with its owner's rights, for the workers' role.
CREATE OR REPLACE FUNCTION @schema@.trim_tenant_lanes(_most integer DEFAULT 10000) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _now constant pg_catalog.timestamptz := clock_timestamp();
  _lanes bigint;
BEGIN
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
  RETURN _lanes;
END
$$;
REVOKE ALL ON FUNCTION @schema@.trim_tenant_lanes FROM PUBLIC;

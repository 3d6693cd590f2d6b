-- Gives back lanes of tenants, and returns how many: a minute after they were given unless they hold jobs, be they of a later time, and
-- after an hour if several tenants have them: then these get others, and those that shared one by chance part. One whose jobs fill
-- a lane of its own keeps it: with another one each hour, it would have the share of many. Does no more than `_most`. Deletes what
-- was told of waits, too (see note_tenant_waits).
-- A push may be about to use a lane that is deleted here. Then its tenant's jobs wait in two, which harms nothing.
--
-- What is noted for a time to come is of before the clock was set back, and goes, too.
--
-- Whether jobs wait is what those who claim them have told (see note_tenant_waits): to look for them, this would pass what was
-- completed since some old snapshot. Where nobody claims, nobody tells: so it gives back those of `_queue_ids` alone (NULL: all), which
-- the caller serves, and of other queues what was given more than a day ago.
--
-- What is deleted stays in the index as long as an old snapshot is held. So of each lane, a row without a tenant takes the place
-- of the newest that goes, and of the one that did so before: a look from the newest end always meets a live row first, and ends
-- at this one (see tenant_lanes_of, tenant_lane). If a push has drawn a lower number and is committed only after this, nobody
-- sees that its lane is taken: another tenant may get it too, and workers find its first job by a full look.
--
-- One session does this at a time: two would wait for each other's rows.
--
-- It runs with its owner's rights, for the workers' role.
DROP FUNCTION IF EXISTS @schema@.trim_tenant_lanes(integer);
CREATE OR REPLACE FUNCTION @schema@.trim_tenant_lanes(_most integer DEFAULT 10000, _queue_ids integer[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _now constant pg_catalog.timestamptz := clock_timestamp();
  _lanes bigint;
BEGIN
  IF NOT pg_try_advisory_xact_lock('@schema@.tenant_lanes'::regclass::oid::integer, 0) THEN
    RETURN 0;
  END IF;
  DELETE FROM @schema@.tenant_waits w WHERE w.told_at NOT BETWEEN _now - interval '1 minute' AND _now + interval '1 minute';
  WITH busy AS MATERIALIZED (
    SELECT DISTINCT w.queue_id, (-n)::pg_catalog.int2 AS lane FROM @schema@.tenant_waits w CROSS JOIN generate_series(1, 32) AS n
    WHERE w.told_at BETWEEN _now - interval '10 s' AND _now AND w.waits[n] > 0
  ), shared AS MATERIALIZED (
    SELECT t.queue_id, t.lane FROM @schema@.tenant_lanes t
    WHERE t.tenant <> '' GROUP BY t.queue_id, t.lane HAVING count(DISTINCT t.tenant) > 1
  ), old AS MATERIALIZED (
    SELECT o.queue_id, o.lane, o.ctid AS tid FROM @schema@.tenant_lanes o
    WHERE o.tenant <> '' AND o.given_at NOT BETWEEN _now - interval '1 minute' AND _now + interval '1 minute'
      AND (_queue_ids IS NULL OR o.queue_id = ANY (_queue_ids) OR o.given_at NOT BETWEEN _now - interval '1 day' AND _now + interval '1 minute')
      AND (
        (o.queue_id, o.lane) NOT IN (SELECT b.queue_id, b.lane FROM busy b)
        OR o.given_at NOT BETWEEN _now - interval '1 hour' AND _now + interval '1 minute'
          AND (o.queue_id, o.lane) IN (SELECT s.queue_id, s.lane FROM shared s)
      )
    ORDER BY o.number LIMIT _most
  ), gone AS (
    DELETE FROM @schema@.tenant_lanes t
    USING (
      SELECT o.queue_id, o.tid FROM old o
      UNION ALL
      SELECT f.queue_id, f.ctid FROM @schema@.tenant_lanes f LEFT JOIN @schema@.queues q USING (queue_id)
      WHERE f.tenant = '' AND (q.queue_id IS NULL OR (f.queue_id, f.lane) IN (SELECT o.queue_id, o.lane FROM old o))
    ) e
    WHERE t.queue_id + 0 = e.queue_id AND t.ctid = e.tid
    RETURNING t.queue_id, t.lane, t.number, t.tenant
  ), ends AS (
    INSERT INTO @schema@.tenant_lanes (number, given_at, queue_id, lane, tenant)
    SELECT max(g.number), _now, g.queue_id, g.lane, '' FROM gone g JOIN @schema@.queues q USING (queue_id) GROUP BY g.queue_id, g.lane
  )
  SELECT count(*) INTO _lanes FROM gone g WHERE g.tenant <> '';
  RETURN _lanes;
END
$$;
REVOKE ALL ON FUNCTION @schema@.trim_tenant_lanes FROM PUBLIC;

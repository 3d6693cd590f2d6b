-- Deletes what deleted queues have left in tables that may be large: `_most` rows of each, and returns how many in all. The numbers
-- of queues are never given again, so nobody reads these rows any more.
--
-- Whoever deletes the queue has committed that, or holds its row as trim_reply_queues does, so nobody pushes into it or claims from it. A session
-- that saw the queue before may still tell of waits, or give a lane. Such a row, one that is locked here, and what is left if
-- the caller ends early go by maintenance: a result when it is kept no longer, a lease when it is over, and what is known of tenants
-- with trim_tenants.
CREATE OR REPLACE FUNCTION @schema@.forget_queues(_queue_ids integer[], _most integer) RETURNS bigint
LANGUAGE plpgsql
@lookups@
AS $$
DECLARE
  _forgotten bigint;
BEGIN
  WITH results AS (
    DELETE FROM @schema@.results r USING (
      SELECT o.queue_id, o.ctid AS tid FROM @schema@.results o WHERE o.queue_id = ANY (_queue_ids) LIMIT _most FOR UPDATE SKIP LOCKED
    ) g WHERE r.queue_id + 0 = g.queue_id AND r.ctid = g.tid RETURNING 1
  ), leases AS (
    DELETE FROM @schema@.leases l USING (
      SELECT o.queue_id, o.ctid AS tid FROM @schema@.leases o WHERE o.queue_id = ANY (_queue_ids) LIMIT _most FOR UPDATE SKIP LOCKED
    ) g WHERE l.queue_id + 0 = g.queue_id AND l.ctid = g.tid RETURNING 1
  ), pushes AS (
    DELETE FROM @schema@.tenant_pushes p USING (
      SELECT o.queue_id, o.ctid AS tid FROM @schema@.tenant_pushes o WHERE o.queue_id = ANY (_queue_ids) LIMIT _most FOR UPDATE SKIP LOCKED
    ) g WHERE p.queue_id + 0 = g.queue_id AND p.ctid = g.tid RETURNING 1
  ), lanes AS (
    DELETE FROM @schema@.tenant_lanes t USING (
      SELECT o.queue_id, o.ctid AS tid FROM @schema@.tenant_lanes o WHERE o.queue_id = ANY (_queue_ids) LIMIT _most FOR UPDATE SKIP LOCKED
    ) g WHERE t.queue_id + 0 = g.queue_id AND t.ctid = g.tid RETURNING 1
  ), waits AS (
    DELETE FROM @schema@.tenant_waits w USING (
      SELECT o.queue_id, o.ctid AS tid FROM @schema@.tenant_waits o WHERE o.queue_id = ANY (_queue_ids) LIMIT _most FOR UPDATE SKIP LOCKED
    ) g WHERE w.queue_id + 0 = g.queue_id AND w.ctid = g.tid RETURNING 1
  )
  SELECT (SELECT count(*) FROM results) + (SELECT count(*) FROM leases) + (SELECT count(*) FROM pushes)
    + (SELECT count(*) FROM lanes) + (SELECT count(*) FROM waits)
  INTO _forgotten;
  RETURN _forgotten;
END
$$;
REVOKE ALL ON FUNCTION @schema@.forget_queues FROM PUBLIC;

-- Deletes leases whose only round has just been settled, in the same transaction: where leases are long, few are left to
-- end_leases then. Others stay until they are over, since some of their rounds may still be held. One that another session
-- has locked is left too: to wait for it could deadlock.
CREATE OR REPLACE FUNCTION @schema@.forget_leases(_queue_ids integer[], _ids text[], _fences bigint[]) RETURNS void
LANGUAGE plpgsql
@lookups@
AS $$
BEGIN
  WITH settled AS MATERIALIZED (
    SELECT g.queue_id, g.tid FROM unnest(_queue_ids, _ids, _fences) AS r(queue_id, id, fence)
    CROSS JOIN LATERAL (
      SELECT t.queue_id, t.ctid AS tid FROM @schema@.leases t
      WHERE t.queue_id = r.queue_id AND t.fence = r.fence AND t.ids = ARRAY[r.id COLLATE "C"]
      FOR UPDATE SKIP LOCKED
    ) g
    WHERE (
      SELECT true FROM @schema@.jobs j
      WHERE j.queue_id = r.queue_id AND j.id >= r.id COLLATE "C" AND j.id <= r.id COLLATE "C"
        AND j.fence = r.fence AND j.claimed_by = 0
      ORDER BY j.id LIMIT 1
    ) IS NULL
  )
  DELETE FROM @schema@.leases l USING settled s WHERE l.queue_id + 0 = s.queue_id AND l.ctid = s.tid;
END
$$;

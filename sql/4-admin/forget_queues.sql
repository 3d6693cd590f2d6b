-- Deletes what deleted queues have left in tables that may be large: `_most` rows of each, and returns how many in all. The numbers
-- of queues are never given again, so nobody reads these rows any more.
--
-- Whoever deletes the queue has committed that, or holds its row as trim_reply_queues does, so nobody pushes into it or claims from
-- it. A session that saw the queue before may still tell of waits, or give a lane. Such a row, one that is locked here, and what is
-- left if the caller ends early go by maintenance: a result when it is kept no longer, a lease when it is over, and what is known of
-- tenants with trim_tenants.
CREATE OR REPLACE FUNCTION @schema@.forget_queues(_queue_ids integer[], _most integer) RETURNS bigint
LANGUAGE plpgsql
@lookups@
AS $$
DECLARE
  _table text;
  _rows bigint;
  _forgotten bigint := 0;
BEGIN
  FOREACH _table IN ARRAY '{results,leases,tenant_pushes,tenant_lanes,tenant_waits}'::text[] LOOP
    EXECUTE format(
      'DELETE FROM %1$s.%2$I t USING (
        SELECT o.queue_id, o.ctid AS tid FROM %1$s.%2$I o WHERE o.queue_id = ANY ($1) LIMIT $2 FOR UPDATE SKIP LOCKED
      ) g WHERE t.queue_id + 0 = g.queue_id AND t.ctid = g.tid', '@schema@', _table
    ) USING _queue_ids, _most;
    GET DIAGNOSTICS _rows = ROW_COUNT;
    _forgotten := _forgotten + _rows;
  END LOOP;
  RETURN _forgotten;
END
$$;
REVOKE ALL ON FUNCTION @schema@.forget_queues FROM PUBLIC;

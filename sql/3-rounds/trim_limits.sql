-- Deletes what no longer counts for limits, and returns how many rows: starts that have left the window, processes that
-- wait no longer for a place, and whatever is left of a queue without limits. A queue whose lock is not free is left
-- for the next time. Does no more than `_most` of each.
--
-- 1. Find what may go, without a lock: that reads all there is, and claims must not wait for it.
-- 2. Delete it under the lock of each queue, by its ctid: no more than that is done while claims wait. What they have noted meanwhile
--    is newer, and what they have deleted is gone: no other row has its ctid yet, since the statement that calls this keeps a
--    snapshot from before. A start that something newer follows by now has its total in that row's `gone`. Only if the limits
--    have changed, what was found may count, and is left for the next time.
--
-- It runs with its owner's rights, for the workers' role.
CREATE OR REPLACE FUNCTION @schema@.trim_limits(_most integer DEFAULT 10000) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _now constant pg_catalog.timestamptz := clock_timestamp();
  _queue_ids integer[] := ARRAY(
    SELECT h.queue_id FROM @schema@.holds h UNION SELECT s.queue_id FROM @schema@.starts s UNION SELECT t.queue_id FROM @schema@.turns t
    ORDER BY 1
  );
  _limits jsonb[] := ARRAY(
    SELECT q.limits FROM unnest(_queue_ids) WITH ORDINALITY AS e(queue_id, n) LEFT JOIN @schema@.queues q USING (queue_id) ORDER BY e.n
  );
  _starts tid[];
  _turns tid[];
  _holds tid[];
  _of_starts integer[];
  _of_turns integer[];
  _of_holds integer[];
  _count bigint;
  _all bigint := 0;
BEGIN
  SELECT array_agg(o.tid), array_agg(e.n) INTO _starts, _of_starts
  FROM unnest(_queue_ids, _limits) WITH ORDINALITY AS e(queue_id, limits, n)
  CROSS JOIN LATERAL @schema@.old_starts(e.queue_id, e.limits, _now, _most) AS o(tid);
  SELECT array_agg(o.ctid), array_agg(e.n) INTO _turns, _of_turns
  FROM unnest(_queue_ids) WITH ORDINALITY AS e(queue_id, n) CROSS JOIN LATERAL (
    SELECT t.ctid FROM @schema@.turns t WHERE t.queue_id = e.queue_id AND t.seen_at < _now - interval '1 minute' LIMIT _most
  ) o;
  SELECT array_agg(o.ctid), array_agg(e.n) INTO _holds, _of_holds
  FROM unnest(_queue_ids, _limits) WITH ORDINALITY AS e(queue_id, limits, n) CROSS JOIN LATERAL (
    SELECT h.ctid FROM @schema@.holds h
    WHERE h.queue_id = e.queue_id AND (e.limits ? 'concurrency' OR e.limits->'tenant' ? 'concurrency') IS NOT TRUE LIMIT _most
  ) o;

  FOR _n IN 1..cardinality(_queue_ids) LOOP
    CONTINUE WHEN (_n = ANY (_of_starts || _of_turns || _of_holds)) IS NOT TRUE;
    CONTINUE WHEN NOT pg_try_advisory_xact_lock('@schema@.holds'::regclass::oid::integer, _queue_ids[_n]);
    CONTINUE WHEN (SELECT q.limits FROM @schema@.queues q WHERE q.queue_id = _queue_ids[_n]) IS DISTINCT FROM _limits[_n];
    DELETE FROM @schema@.starts s WHERE s.queue_id + 0 = _queue_ids[_n] AND s.ctid = ANY (ARRAY(
      SELECT o.tid FROM unnest(_starts, _of_starts) AS o(tid, n) WHERE o.n = _n
    ));
    GET DIAGNOSTICS _count = ROW_COUNT;
    _all := _all + _count;
    DELETE FROM @schema@.turns t WHERE t.queue_id + 0 = _queue_ids[_n] AND t.ctid = ANY (ARRAY(
      SELECT o.tid FROM unnest(_turns, _of_turns) AS o(tid, n) WHERE o.n = _n
    ));
    GET DIAGNOSTICS _count = ROW_COUNT;
    _all := _all + _count;
    DELETE FROM @schema@.holds h WHERE h.queue_id + 0 = _queue_ids[_n] AND h.ctid = ANY (ARRAY(
      SELECT o.tid FROM unnest(_holds, _of_holds) AS o(tid, n) WHERE o.n = _n
    ));
    GET DIAGNOSTICS _count = ROW_COUNT;
    _all := _all + _count;
  END LOOP;
  RETURN _all;
END
$$;
REVOKE ALL ON FUNCTION @schema@.trim_limits FROM PUBLIC;

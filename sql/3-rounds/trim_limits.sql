-- Deletes what no longer counts for limits, and returns how many rows: starts that have left the window, processes that
-- wait no longer for a place, and whatever is left of a queue without limits. A queue whose lock is not free is left
-- for the next time. Does no more than `_most` of each.
--
-- Of the starts of a queue or a tenant that have left the window, the newest stays: its total tells how many they were, and while an
-- old snapshot is held, it's met before all that are deleted here (see started). It goes an hour after the window, when nothing
-- has begun since. Then totals begin anew, with nothing that counts.
--
-- It runs with its owner's rights, for the workers' role.
CREATE OR REPLACE FUNCTION @schema@.trim_limits(_most integer DEFAULT 10000) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _now constant pg_catalog.timestamptz := clock_timestamp();
  _queue_id integer;
  _limits jsonb;
  _count bigint;
  _all bigint := 0;
BEGIN
  FOR _queue_id IN
    SELECT h.queue_id FROM @schema@.holds h UNION SELECT s.queue_id FROM @schema@.starts s UNION SELECT t.queue_id FROM @schema@.turns t
  LOOP
    CONTINUE WHEN NOT pg_try_advisory_xact_lock('@schema@.holds'::regclass::oid::integer, _queue_id);
    _limits := (SELECT q.limits FROM @schema@.queues q WHERE q.queue_id = _queue_id);
    DELETE FROM @schema@.starts s WHERE s.queue_id + 0 = _queue_id AND s.ctid = ANY (ARRAY(
      SELECT o.tid FROM (
        SELECT s.ctid AS tid, s.at, s.clock, lead(s.at) OVER tenants AS next_at, lead(s.clock) OVER tenants AS next_clock,
          _now - @schema@.rate_window((
            CASE WHEN s.tenant = '' THEN _limits->'rate'->>'per' ELSE _limits->'tenant'->'rate'->>'per' END
          )::float8) AS left_at
        FROM @schema@.starts s WHERE s.queue_id = _queue_id
        WINDOW tenants AS (PARTITION BY s.tenant ORDER BY s.clock, s.at, s.total)
      ) o
      WHERE o.left_at IS NULL OR o.next_clock > o.clock OR o.next_at <= o.left_at
        OR o.next_at IS NULL AND o.at <= o.left_at - interval '1 hour'
      LIMIT _most
    ));
    GET DIAGNOSTICS _count = ROW_COUNT;
    _all := _all + _count;
    DELETE FROM @schema@.turns t WHERE t.queue_id + 0 = _queue_id AND t.ctid = ANY (ARRAY(
      SELECT o.ctid FROM @schema@.turns o WHERE o.queue_id = _queue_id AND o.seen_at < _now - interval '1 minute' LIMIT _most
    ));
    GET DIAGNOSTICS _count = ROW_COUNT;
    _all := _all + _count;
    CONTINUE WHEN _limits ? 'concurrency' OR _limits->'tenant' ? 'concurrency';
    DELETE FROM @schema@.holds h WHERE h.queue_id + 0 = _queue_id AND h.ctid = ANY (ARRAY(
      SELECT o.ctid FROM @schema@.holds o WHERE o.queue_id = _queue_id LIMIT _most
    ));
    GET DIAGNOSTICS _count = ROW_COUNT;
    _all := _all + _count;
  END LOOP;
  RETURN _all;
END
$$;
REVOKE ALL ON FUNCTION @schema@.trim_limits FROM PUBLIC;

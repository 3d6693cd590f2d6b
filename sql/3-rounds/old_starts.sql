-- The starts of a queue that count no longer, for trim_limits: no more than `_most`.
--
-- Of the starts of a queue or a tenant that have left the window, the newest stays: its total tells how many they were, and while an
-- old snapshot is held, it's met before all that are deleted (see started). It goes an hour after the window, when nothing
-- has begun since. Then totals begin anew, with nothing that counts.
CREATE OR REPLACE FUNCTION @schema@.old_starts(_queue_id integer, _limits jsonb, _now timestamptz, _most integer) RETURNS SETOF tid
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY
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
  LIMIT _most;
END
$$;
REVOKE ALL ON FUNCTION @schema@.old_starts FROM PUBLIC;

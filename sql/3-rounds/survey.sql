-- The next job to come of every lane of the given shards, from the beginning: the full look. It finds what cursors have
-- passed: late commits, skipped rows, and jobs whose process has died. It finds lanes by jumping from one to the next
-- in the index.
-- Sorts are off, so that only jobs_due can give ORDER BY lane, and ORDER BY perform_in, id: the planner can't take the
-- primary key, which would have the whole queue read (see claim).
CREATE OR REPLACE FUNCTION @schema@.survey(
  _process_id integer,
  _queue_ids integer[],
  _shards integer[]
) RETURNS TABLE (queue_id integer, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
@lookups@ SET enable_sort = off
AS $$
BEGIN
  RETURN QUERY
  SELECT e.queue_id, e.shard, l.lane, @schema@.micros(h.perform_in)
  FROM unnest(_queue_ids, _shards) AS e(queue_id, shard)
  JOIN @schema@.queues q ON q.queue_id = e.queue_id AND q.paused_at IS NULL
  CROSS JOIN LATERAL (
    WITH RECURSIVE lanes (lane) AS (
      (SELECT j.lane FROM @schema@.jobs j WHERE j.queue_id = e.queue_id AND j.shard = e.shard ORDER BY j.lane LIMIT 1)
      UNION ALL
      SELECT (SELECT j.lane FROM @schema@.jobs j
              WHERE j.queue_id = e.queue_id AND j.shard = e.shard AND j.lane > p.lane ORDER BY j.lane LIMIT 1)
      FROM lanes p WHERE p.lane IS NOT NULL
    )
    SELECT n.lane FROM lanes n WHERE n.lane IS NOT NULL
  ) l
  CROSS JOIN LATERAL (
    SELECT j.perform_in FROM @schema@.jobs j
    WHERE j.queue_id = e.queue_id AND j.shard = e.shard AND j.lane = l.lane
      AND CASE
        WHEN j.claimed_by IS NULL THEN true
        WHEN j.claimed_by = _process_id OR j.claimed_by = 0 THEN false
        ELSE NOT EXISTS (
          SELECT FROM @schema@.processes p WHERE p.process_id = j.claimed_by
        )
      END
    ORDER BY j.perform_in, j.id LIMIT 1
  ) h;
END
$$;

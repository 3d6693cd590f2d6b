-- The next job to come of each lane, from its cursor on: the cheap look.
-- Sorts are off, so that only jobs_due can give ORDER BY perform_in, id: the planner can't take the primary key, which
-- would have the whole queue read (see claim).
CREATE OR REPLACE FUNCTION @schema@.look(
  _queue_ids integer[],
  _shards integer[],
  _lanes smallint[],
  _after bigint[],
  _after_ids text[]
) RETURNS TABLE (queue_id integer, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
@lookups@ SET enable_sort = off
AS $$
BEGIN
  RETURN QUERY
  SELECT e.queue_id, e.shard, e.lane, @schema@.micros(h.perform_in)
  FROM unnest(_queue_ids, _shards, _lanes, _after, _after_ids) AS e(queue_id, shard, lane, after, after_id)
  JOIN @schema@.queues q ON q.queue_id = e.queue_id AND q.paused_at IS NULL
  CROSS JOIN LATERAL (
    SELECT j.perform_in FROM @schema@.jobs j
    WHERE j.queue_id = e.queue_id AND j.shard = e.shard AND j.lane = e.lane
      AND (j.perform_in, j.id) > (@schema@.from_micros(e.after), e.after_id) AND j.claimed_by IS NULL
    ORDER BY j.perform_in, j.id LIMIT 1
  ) h;
END
$$;

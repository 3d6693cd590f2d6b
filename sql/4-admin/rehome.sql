-- Moves up to `_limit` jobs out of shards that a queue no longer has, and returns how many. The row of an id stays the
-- same row, in progress or not, so nothing can run twice. Locked rows are left for the next call. So is what a producer
-- that still counted with the old shards commits later.
-- The order is that of the index of due work, and sorts are off, so strays are found in that index, however few they
-- are. The primary key looks cheap while there are many, but would have the whole queue read for the last one.
CREATE OR REPLACE FUNCTION @schema@.rehome(_queue_id integer, _limit integer) RETURNS integer
LANGUAGE plpgsql
@lookups@ SET enable_sort = off
AS $$
DECLARE
  _shard_count integer;
  _moved integer;
  _heads text[];
BEGIN
  PERFORM @schema@.require_read_committed();
  SELECT q.shards INTO _shard_count FROM @schema@.queues q WHERE q.queue_id = _queue_id;
  WITH stray AS MATERIALIZED (
    SELECT j.queue_id, j.id FROM @schema@.jobs j
    WHERE j.queue_id = _queue_id AND j.shard >= _shard_count
    ORDER BY j.shard, j.lane, j.perform_in, j.id
    LIMIT _limit FOR UPDATE SKIP LOCKED
  ), moved AS (
    UPDATE @schema@.jobs j SET shard = @schema@.shard_of(j.id, _shard_count)
    FROM stray s WHERE j.queue_id = s.queue_id AND j.id = s.id
    RETURNING j.shard, j.lane, j.perform_in
  ), heads AS (
    SELECT m.shard, m.lane, min(m.perform_in) AS perform_in FROM moved m GROUP BY m.shard, m.lane
  )
  SELECT (SELECT count(*) FROM moved m),
    (SELECT array_agg(@schema@.wake_token(h.shard, h.lane, h.perform_in)) FROM heads h)
  INTO _moved, _heads;
  IF _heads IS NOT NULL THEN
    PERFORM @schema@.wake(_queue_id, _heads);
  END IF;
  RETURN _moved;
END
$$;

-- Moves the whole payload sets of waiting jobs to the morgue (R11) and returns how many jobs that were. Equal
-- payloads of several rounds fold into the smallest score. They die one after the other, in the order a handler would have
-- got them: that is the order in which a requeue brings back those of one score.
CREATE OR REPLACE FUNCTION @schema@.kill(_queue_id integer, _ids text[]) RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
  _held text[] := @schema@.hold_waiting(_queue_id, _ids);
  _died_at constant timestamptz := clock_timestamp();
BEGIN
  WITH gone AS (
    DELETE FROM @schema@.payloads p WHERE p.queue_id = _queue_id AND p.job_id = ANY (_held)
    RETURNING p.queue_id, p.job_id, p.shard, p.digest, p.score, p.seq, p.payload
  )
  INSERT INTO @schema@.morgue AS m (queue_id, shard, job_id, digest, score, payload, error, died_at)
  SELECT DISTINCT ON (g.job_id, g.digest)
    _queue_id, g.shard, g.job_id, g.digest, g.score, g.payload, coalesce(j.error, 'killed'),
    _died_at + row_number() OVER (ORDER BY g.score, g.seq) * interval '1 microsecond'
  FROM gone g JOIN @schema@.jobs j ON j.queue_id = g.queue_id AND j.id = g.job_id
  ORDER BY g.job_id, g.digest, g.score, g.seq
  ON CONFLICT (queue_id, job_id, digest) DO UPDATE SET
    score = least(m.score, excluded.score), error = excluded.error, died_at = excluded.died_at;
  DELETE FROM @schema@.jobs j WHERE j.queue_id = _queue_id AND j.id = ANY (_held);
  RETURN coalesce(cardinality(_held), 0);
END
$$;

-- Moves dead payloads back to their jobs (R5) and returns how many. A waiting job becomes due now with a clean
-- count; one in work gets them in its next round, at once.
--
-- Jobs are locked before morgue rows, in id order, as a death does it: the other way round the two could
-- deadlock. A job that was made for a payload somebody else requeued or deleted meanwhile goes again.
CREATE OR REPLACE FUNCTION @schema@.requeue(_queue_id integer, _job_ids text[], _digests bytea[]) RETURNS integer
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off
AS $$
DECLARE
  _moved integer;
  _heads text[];
BEGIN
  PERFORM @schema@.require_read_committed();
  WITH pushed AS (
    INSERT INTO @schema@.jobs AS j (queue_id, shard, perform_in, id)
    SELECT _queue_id, @schema@.shard_of(i.id, q.shards), clock_timestamp(), i.id
    FROM (SELECT DISTINCT d.id COLLATE "C" AS id FROM unnest(_job_ids) AS d(id)) i, @schema@.queues q
    WHERE q.queue_id = _queue_id
    ORDER BY i.id
    ON CONFLICT (queue_id, id) DO UPDATE SET
      perform_in = CASE WHEN j.claimed_by IS NULL THEN excluded.perform_in ELSE j.perform_in END,
      retry_count = CASE WHEN j.claimed_by IS NULL THEN -1 ELSE j.retry_count END,
      error = CASE WHEN j.claimed_by IS NULL THEN NULL ELSE j.error END,
      next_perform_in = CASE WHEN j.claimed_by IS NULL THEN NULL ELSE least(j.next_perform_in, excluded.perform_in) END
    RETURNING j.shard, j.lane, j.perform_in
  ), heads AS (
    SELECT p.shard, p.lane, min(p.perform_in) AS perform_in FROM pushed p GROUP BY p.shard, p.lane
  )
  SELECT array_agg(@schema@.head_of(h.shard, h.lane, h.perform_in)) INTO _heads FROM heads h;

  WITH risen AS (
    DELETE FROM @schema@.morgue m USING unnest(_job_ids, _digests) AS d(id, digest)
    WHERE m.queue_id = _queue_id AND m.job_id = d.id AND m.digest = d.digest
    RETURNING m.job_id, m.digest, m.score, m.payload
  ), back AS (
    INSERT INTO @schema@.payloads AS p (queue_id, shard, fence, score, job_id, digest, payload)
    SELECT _queue_id, j.shard, j.fence, r.score, r.job_id, r.digest, r.payload
    FROM risen r JOIN @schema@.jobs j ON j.queue_id = _queue_id AND j.id = r.job_id
    ON CONFLICT (queue_id, job_id, fence, digest) DO UPDATE SET score = excluded.score, seq = excluded.seq
      WHERE excluded.score < p.score
  )
  SELECT count(*) INTO _moved FROM risen;

  DELETE FROM @schema@.jobs j
  WHERE j.queue_id = _queue_id AND j.id = ANY (_job_ids) AND j.claimed_by IS NULL
    AND NOT EXISTS (SELECT FROM @schema@.payloads p WHERE p.queue_id = _queue_id AND p.job_id = j.id);
  PERFORM @schema@.wake(_queue_id, _heads, true);
  RETURN _moved;
END
$$;

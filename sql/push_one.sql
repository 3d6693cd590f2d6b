-- Pushes one job as enqueue_many does many, for which see there; a third of the work where there is but one. Returns
-- the head to wake a worker with, or NULL.
--
-- The job row comes first: it is locked from then on, whether ON CONFLICT has changed it or not, so its fence stays
-- what the payload goes under.
CREATE OR REPLACE FUNCTION @schema@.push_one(
  _queue_id integer,
  _shards integer,
  _id text,
  _payload jsonb,
  _score double precision,
  _perform_in timestamptz,
  _lane smallint
) RETURNS text
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
AS $$
DECLARE
  _shard pg_catalog.int4;
  _fence pg_catalog.int8;
  _head pg_catalog.text;
BEGIN
  INSERT INTO @schema@.jobs AS j (queue_id, shard, lane, perform_in, id, fence)
  VALUES (
    _queue_id, @schema@.shard_of(_id, _shards), _lane, coalesce(_perform_in, clock_timestamp()), _id,
    nextval('@schema@.fences')
  )
  ON CONFLICT (queue_id, id) DO UPDATE SET next_perform_in = excluded.perform_in
    WHERE j.claimed_by IS NOT NULL AND j.next_perform_in IS NULL
  RETURNING j.shard, j.fence, CASE WHEN j.claimed_by IS NULL THEN @schema@.head_of(j.shard, j.lane, j.perform_in) END
  INTO _shard, _fence, _head;
  IF NOT FOUND THEN
    SELECT j.shard, j.fence INTO _shard, _fence FROM @schema@.jobs j WHERE j.queue_id = _queue_id AND j.id = _id;
  END IF;

  INSERT INTO @schema@.payloads AS p (queue_id, shard, fence, score, job_id, digest, payload)
  VALUES (
    _queue_id, _shard, _fence, coalesce(_score, extract(epoch FROM clock_timestamp())::double precision * 1000),
    _id, @schema@.digest_of(_payload), _payload
  )
  ON CONFLICT (queue_id, job_id, fence, digest) DO UPDATE SET score = excluded.score, seq = excluded.seq
    WHERE excluded.score < p.score;
  RETURN _head;
END
$$;

-- Pushes jobs: five arrays of one length, NULL elements standing for the defaults. Returns how many were given.
--
-- 1. The job row comes first, in id order, so that two bulk pushes can't deadlock. ON CONFLICT locks the row
--    that is there, whether its WHERE holds or not, and keeps it locked until the caller commits: nobody can
--    claim or complete the job in between, and its fence stays what step 2 reads.
--    A row in work gets the start of its next round, once; a waiting row stays as it is: a push neither
--    hastens nor delays it.
-- 2. The payloads go under the fence of their job. Pushed into a waiting job, that is below the fence of the
--    claim to come; pushed while in work, it is the claim's own fence, which the completion spares.
-- 3. Only jobs that are new can be due earlier than a worker knows, so only they wake one.
-- (For OFFSET 0 see claim.)
--
-- It runs with its owner's rights, so that a producer needs none on any table (see `lockstep roles`): names, types and
-- operators come from pg_catalog whatever the caller's search_path or temporary objects are, and only those may call
-- it who were granted that. What it calls must declare no variable of a type without its schema: such a function is
-- compiled once a session, perhaps at an earlier call, under the caller's own search_path.
CREATE OR REPLACE FUNCTION @schema@.enqueue_many(
  _queue text,
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[]
) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
  _queue_id integer;
  _shards integer;
  _heads text[];
BEGIN
  SELECT q.queue_id, q.shards INTO _queue_id, _shards FROM @schema@.queues q WHERE q.name = _queue;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'queue "%" does not exist', left(_queue, 255)
      USING ERRCODE = 'LK001', HINT = 'Start a worker that defines it, or create it: SELECT @schema@.create_queue(name, shards).';
  END IF;
  PERFORM @schema@.check_jobs(_ids, _payloads, _scores, _perform_ins, _lanes);

  WITH input AS (
    SELECT DISTINCT ON (i.id COLLATE "C") i.id COLLATE "C" AS id,
      coalesce(i.perform_in, clock_timestamp()) AS perform_in, coalesce(i.lane, 0::smallint) AS lane
    FROM unnest(_ids, _perform_ins, _lanes) WITH ORDINALITY AS i(id, perform_in, lane, position)
    ORDER BY i.id COLLATE "C", i.position
  ), pushed AS (
    INSERT INTO @schema@.jobs AS j (queue_id, shard, lane, perform_in, id)
    SELECT _queue_id, @schema@.shard_of(i.id, _shards), i.lane, i.perform_in, i.id FROM input i
    ON CONFLICT (queue_id, id) DO UPDATE SET next_perform_in = excluded.perform_in
      WHERE j.claimed_by IS NOT NULL AND j.next_perform_in IS NULL
    RETURNING j.shard, j.lane, j.perform_in, j.claimed_by
  ), heads AS (
    SELECT p.shard, p.lane, min(p.perform_in) AS perform_in
    FROM pushed p WHERE p.claimed_by IS NULL GROUP BY p.shard, p.lane
  )
  SELECT array_agg(@schema@.head_of(h.shard, h.lane, h.perform_in)) INTO _heads FROM heads h;

  INSERT INTO @schema@.payloads AS p (queue_id, shard, fence, score, job_id, digest, payload)
  SELECT j.queue_id, j.shard, j.fence, i.score, j.id, i.digest, i.payload
  FROM (
    SELECT DISTINCT ON (s.id, s.digest) s.*, _queue_id AS queue_id
    FROM (
      SELECT i.id COLLATE "C" AS id, i.position, coalesce(i.payload, '""') AS payload, @schema@.digest_of(coalesce(i.payload, '""')) AS digest,
        coalesce(i.score, extract(epoch FROM clock_timestamp())::double precision * 1000) AS score
      FROM unnest(_ids, _payloads, _scores) WITH ORDINALITY AS i(id, payload, score, position)
    ) s
    ORDER BY s.id, s.digest, s.score, s.position
    OFFSET 0
  ) i
  JOIN @schema@.jobs j ON j.queue_id = i.queue_id AND j.id = i.id
  ORDER BY i.position
  ON CONFLICT (queue_id, job_id, fence, digest) DO UPDATE SET score = excluded.score, seq = excluded.seq
    WHERE excluded.score < p.score;

  IF _heads IS NOT NULL THEN
    PERFORM @schema@.wake(_queue_id, _heads, false);
  END IF;
  RETURN cardinality(_ids);
END
$$;
REVOKE ALL ON FUNCTION @schema@.enqueue_many FROM PUBLIC;

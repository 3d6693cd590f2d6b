-- Moves dead payloads back to their jobs (R5) and returns how many. A waiting job becomes due now with a clean count.
-- One in progress gets them in its next round, at once. If another session has requeued or deleted a job's payloads
-- meanwhile, the job is left as it is. If a job has no error, it gets the latest error that its dead payloads died of:
-- that stays until the next success. The failed attempts of that payload's job come with it, unless the job has some of its
-- own. A job that is made for it gets its tenant, and the tenant's lane where those have some. Others keep what they have.
--
-- 1. Jobs are locked before rows of the morgue, in id order, as a death does it: the other way round, the two could
--    deadlock. ON CONFLICT locks an existing row even though its WHERE never holds, and returns only rows that are new.
-- 2. The payloads move under the fence of their job: below the next claim's fence, or, for a job in progress, where the
--    completion spares them. They merge as a push does that never expires: an equal payload that waits keeps its
--    headers.
-- 3. The jobs that got something change: their rows say that they have payloads elsewhere. One that a dead process left
--    waits, with its crash counted.
-- 4. Jobs that step 1 made for nothing are deleted again.
-- (For OFFSET 0 see claim.)
CREATE OR REPLACE FUNCTION @schema@.requeue(_queue_id integer, _job_ids text[], _digests bytea[]) RETURNS integer
LANGUAGE plpgsql
@lookups@
AS $$
DECLARE
  _made text[];
  _moved integer;
  _risen text[];
  _errors text[];
  _attempts jsonb[];
  _tenants text[];
  _lanes smallint[];
  _heads text[];
BEGIN
  PERFORM @schema@.require_read_committed();
  WITH made AS (
    INSERT INTO @schema@.jobs AS j (queue_id, shard, perform_in, id)
    SELECT _queue_id, @schema@.shard_of(i.id, q.shards), clock_timestamp(), i.id
    FROM (SELECT DISTINCT d.id COLLATE "C" AS id FROM unnest(_job_ids) AS d(id)) i, @schema@.queues q
    WHERE q.queue_id = _queue_id
    ORDER BY i.id
    ON CONFLICT (queue_id, id) DO UPDATE SET fence = j.fence WHERE false
    RETURNING j.id
  )
  SELECT array_agg(m.id) INTO _made FROM made m;

  WITH risen AS (
    DELETE FROM @schema@.morgue m
    USING (SELECT _queue_id AS queue_id, t.* FROM unnest(_job_ids, _digests) AS t(id, digest) OFFSET 0) d
    WHERE m.queue_id = d.queue_id AND m.job_id = d.id AND m.digest = d.digest
    RETURNING m.queue_id, m.job_id, m.digest, m.score, m.payload, m.headers, m.error, m.attempts, m.died_at, m.tenant
  ), back AS (
    INSERT INTO @schema@.payloads AS p (queue_id, fence, score, job_id, digest, payload, headers)
    SELECT _queue_id, j.fence, r.score, r.job_id, r.digest, r.payload, r.headers
    FROM risen r JOIN @schema@.jobs j ON j.queue_id = r.queue_id AND j.id = r.job_id
    ORDER BY r.died_at
    ON CONFLICT (queue_id, job_id, fence, digest) DO UPDATE SET
      score = CASE WHEN p.expires_in <= statement_timestamp() THEN excluded.score ELSE least(p.score, excluded.score) END,
      seq = CASE WHEN p.expires_in <= statement_timestamp() OR excluded.score < p.score THEN excluded.seq ELSE p.seq END,
      headers = CASE WHEN p.expires_in <= statement_timestamp() THEN excluded.headers ELSE p.headers END,
      expires_in = NULL
    WHERE p.expires_in IS NOT NULL OR excluded.score < p.score
  )
  SELECT coalesce(sum(r.payloads), 0), array_agg(r.job_id), array_agg(r.error), array_agg(r.attempts), array_agg(r.tenant)
  INTO _moved, _risen, _errors, _attempts, _tenants
  FROM (
    SELECT r.job_id, count(*) AS payloads, (array_agg(r.error ORDER BY r.died_at DESC))[1] AS error,
      (array_agg(r.attempts ORDER BY r.died_at DESC))[1] AS attempts,
      (array_agg(r.tenant ORDER BY r.died_at DESC))[1] AS tenant
    FROM risen r GROUP BY r.job_id
  ) r;

  IF (SELECT q.fairness IS NULL FROM @schema@.queues q WHERE q.queue_id = _queue_id) THEN
    _lanes := @schema@.lanes_of(_queue_id, NULL, ARRAY(
      SELECT CASE WHEN t.id = ANY (_made) THEN t.tenant END FROM unnest(_risen, _tenants) WITH ORDINALITY AS t(id, tenant, n) ORDER BY t.n
    ), NULL);
  END IF;

  UPDATE @schema@.jobs j SET
    perform_in = clock_timestamp(), retry_count = -1, error = coalesce(j.error, r.error), next_perform_in = NULL, has_payloads = true,
    crashes = j.crashes + (j.claimed_by IS NOT NULL)::integer, claimed_by = NULL, claimed_at = NULL,
    attempts = CASE
      WHEN j.claimed_by IS NOT NULL THEN @schema@.with_attempt(j.attempts, j.error, 'crash', j.retry_count)
      WHEN j.error IS NULL THEN coalesce(j.attempts, r.attempts)
      ELSE j.attempts
    END,
    tenant = CASE WHEN j.id = ANY (_made) THEN r.tenant ELSE j.tenant END,
    lane = CASE WHEN j.id = ANY (_made) THEN coalesce(r.lane, j.lane) ELSE j.lane END
  FROM (
    SELECT _queue_id AS queue_id, t.*
    FROM unnest(_risen, _errors, _attempts, _tenants, _lanes) AS t(id, error, attempts, tenant, lane) OFFSET 0
  ) r
  WHERE j.queue_id = r.queue_id AND j.id = r.id
    AND CASE WHEN j.claimed_by IS NULL THEN true ELSE @schema@.is_gone(j.claimed_by) END;

  UPDATE @schema@.jobs j SET next_perform_in = least(j.next_perform_in, clock_timestamp()), has_payloads = true
  WHERE j.queue_id = _queue_id AND j.id = ANY (_risen) AND j.claimed_by IS NOT NULL;

  DELETE FROM @schema@.jobs j
  WHERE j.queue_id = _queue_id AND j.id = ANY (_job_ids) AND j.claimed_by IS NULL
    AND j.payload IS NULL AND NOT EXISTS (SELECT FROM @schema@.payloads p WHERE p.queue_id = j.queue_id AND p.job_id = j.id);

  SELECT array_agg(@schema@.wake_token(h.shard, h.lane, h.perform_in)) INTO _heads
  FROM (
    SELECT j.shard, j.lane, min(j.perform_in) AS perform_in FROM @schema@.jobs j
    WHERE j.queue_id = _queue_id AND j.id = ANY (_risen) AND j.claimed_by IS NULL
    GROUP BY j.shard, j.lane
  ) h;
  IF _heads IS NOT NULL THEN
    PERFORM @schema@.wake(_queue_id, _heads);
  END IF;
  RETURN _moved;
END
$$;

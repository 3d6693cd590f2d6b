-- Moves the whole payload sets of waiting jobs to the morgue, and of jobs in progress what waits behind the round
-- (R11). Returns how many jobs that were. Equal payloads of several rounds fold into the smallest score and the
-- earliest headers. They die one after the other, in the order a handler would have got them: that is the order in
-- which a requeue brings back those of one score. The error is the job's last one, with its failed
-- attempts; a next round has had none.
-- What has expired goes away instead.
-- The payload that a job's row carries goes with the whole job: it was pushed before all others, so it has the number 0.
-- What dies was pushed before a fence that is drawn once the rows are locked, as a claim draws one. What dies behind a round was
-- pushed since that began. `result` tells by both whose payloads these were.
-- (Otherwise as delete_jobs.)
CREATE OR REPLACE FUNCTION @schema@.kill(_queue_id integer, _ids text[], _next boolean[] DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql
@lookups@ SET enable_sort = off SET enable_incremental_sort = off
AS $$
DECLARE
  _held text[];
  _fences bigint[];
  _jobs text[];
  _rounds text[];
  _died_at timestamptz;
  _fence bigint;
BEGIN
  SELECT array_agg(h.id), array_agg(h.fence),
    array_agg(h.id) FILTER (WHERE h.fence IS NULL), array_agg(h.id) FILTER (WHERE h.fence IS NOT NULL), clock_timestamp(),
    nextval('@schema@.fences')
  INTO _held, _fences, _jobs, _rounds, _died_at, _fence
  FROM @schema@.lock_waiting(_queue_id, _ids, _next) h;

  WITH gone AS (
    DELETE FROM @schema@.payloads p
    USING unnest(_held, _fences) AS h(id, fence) CROSS JOIN LATERAL (
      SELECT t.ctid AS tid FROM @schema@.payloads t
      WHERE t.queue_id = _queue_id AND t.job_id = h.id AND t.fence >= coalesce(h.fence, 0)
      OFFSET 0
    ) e
    WHERE p.queue_id + 0 = _queue_id AND p.ctid = e.tid
    RETURNING p.queue_id, p.job_id, p.digest, p.score, p.seq, p.payload, p.headers, h.fence IS NULL AS has_run, p.expires_in, h.fence AS since
  )
  INSERT INTO @schema@.morgue AS m (queue_id, shard, job_id, digest, score, payload, headers, error, attempts, died_at, tenant, pushed_from, pushed_before)
  SELECT DISTINCT ON (g.job_id, g.digest)
    _queue_id, j.shard, g.job_id, g.digest, g.score, g.payload,
    first_value(g.headers) OVER (PARTITION BY g.job_id, g.digest ORDER BY g.seq), coalesce(CASE WHEN g.has_run THEN j.error END, 'killed'),
    CASE WHEN g.has_run THEN j.attempts END,
    _died_at + row_number() OVER (ORDER BY g.score, g.seq) * interval '1 microsecond', j.tenant, g.since, _fence
  FROM (
    SELECT * FROM gone
    UNION ALL
    SELECT c.queue_id, c.id, @schema@.digest_of(c.payload), c.score, 0, c.payload, c.headers, true, c.expires_in, NULL
    FROM unnest(_jobs) AS w(id) CROSS JOIN LATERAL (
      SELECT t.* FROM @schema@.jobs t
      WHERE t.queue_id = _queue_id AND t.id >= w.id COLLATE "C" AND t.id <= w.id COLLATE "C" AND t.payload IS NOT NULL
      ORDER BY t.id LIMIT 1
    ) c
  ) g JOIN @schema@.jobs j ON j.queue_id = g.queue_id AND j.id = g.job_id
  WHERE g.expires_in IS NULL OR g.expires_in > _died_at
  ORDER BY g.job_id, g.digest, g.score, g.seq
  ON CONFLICT (queue_id, job_id, digest) DO UPDATE SET
    score = least(m.score, excluded.score), error = excluded.error, attempts = excluded.attempts, died_at = excluded.died_at,
    tenant = excluded.tenant, pushed_from = excluded.pushed_from, pushed_before = excluded.pushed_before;

  DELETE FROM @schema@.jobs j WHERE j.queue_id = _queue_id AND j.id = ANY (_jobs);
  UPDATE @schema@.jobs j SET next_perform_in = NULL WHERE j.queue_id = _queue_id AND j.id = ANY (_rounds);
  RETURN coalesce(cardinality(_held), 0);
END
$$;

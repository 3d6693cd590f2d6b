-- R7, for jobs whose rows the caller has locked. The payload with the lowest score below the fence goes to the morgue,
-- with all equal ones below the fence, whether they lie in the table or in the job's row; unless it had expired when the round was
-- claimed, and was not handed over. What is left of the failed
-- round waits with a clean count, due now, united with what was pushed meanwhile. If nothing is left of it, what was
-- pushed meanwhile waits alone, until its own time (R3): a payload that was scheduled does not start earlier because
-- another one died. A job with neither is deleted: no push can come in between, since it would need the row's lock. The
-- error stays until the next success, and so do the job's failed attempts: they say how rounds of the id ended. The dead
-- payload takes a copy of them along. (For `_kinds` see fail_claims.)
-- Rows of the morgue are locked in key order, as everywhere.
-- Both kinds of sorts are off, so that only the primary key can give the ORDER BY t.id of the lookups of jobs: the
-- planner can't take jobs_due (see claim). What no index can give, such as the lowest score, is sorted all the same.
CREATE OR REPLACE FUNCTION @schema@.bury_failed(
  _queue_ids integer[],
  _ids text[],
  _fences bigint[],
  _errors text[],
  _kinds text[],
  _dying integer[]
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
@lookups@ SET enable_sort = off SET enable_incremental_sort = off
AS $$
#variable_conflict use_column
DECLARE
  _owners integer[];
  _tids tid[];
  _places integer[];
  _dues timestamptz[];
  _left boolean[];
  _digests bytea[];
BEGIN
  WITH lowest AS MATERIALIZED (
    SELECT d.place, l.* FROM unnest(_dying) AS d(place)
    CROSS JOIN LATERAL (
      SELECT t.claimed_at FROM @schema@.jobs t
      WHERE t.queue_id = _queue_ids[d.place] AND t.id >= _ids[d.place] COLLATE "C" AND t.id <= _ids[d.place] COLLATE "C" ORDER BY t.id LIMIT 1
    ) j
    LEFT JOIN LATERAL (
      SELECT p.digest, p.score, p.payload, (
        SELECT e.headers FROM @schema@.payloads_below(_queue_ids[d.place], _ids[d.place], _fences[d.place]) e
        WHERE e.digest = p.digest AND (e.expires_in IS NULL OR e.expires_in > j.claimed_at) ORDER BY e.fence LIMIT 1
      ) AS headers
      FROM @schema@.payloads_below(_queue_ids[d.place], _ids[d.place], _fences[d.place]) p
      WHERE p.expires_in IS NULL OR p.expires_in > j.claimed_at
      ORDER BY p.score, p.seq LIMIT 1
    ) l ON true
  ), gone AS (
    DELETE FROM @schema@.payloads p
    USING lowest l CROSS JOIN LATERAL (
      SELECT t.queue_id, t.ctid AS tid FROM @schema@.payloads t
      WHERE t.queue_id = _queue_ids[l.place] AND t.job_id = _ids[l.place] AND t.fence < _fences[l.place] AND t.digest = l.digest
      OFFSET 0
    ) e
    WHERE p.queue_id + 0 = e.queue_id AND p.ctid = e.tid
  ), dead AS (
    INSERT INTO @schema@.morgue AS m (queue_id, shard, job_id, digest, score, payload, headers, error, attempts, died_at, tenant, pushed_from, pushed_before)
    SELECT j.queue_id, j.shard, j.id, l.digest, l.score, l.payload, l.headers, _errors[l.place], j.attempts, clock_timestamp(), j.tenant,
      NULL, _fences[l.place]
    FROM lowest l CROSS JOIN LATERAL (
      SELECT t.queue_id, t.id, t.shard, t.tenant,
        @schema@.with_attempt(t.attempts, t.error, coalesce(_kinds[l.place], 'failure'), t.retry_count + 1) AS attempts
      FROM @schema@.jobs t
      WHERE t.queue_id = _queue_ids[l.place] AND t.id >= _ids[l.place] COLLATE "C" AND t.id <= _ids[l.place] COLLATE "C" ORDER BY t.id LIMIT 1
    ) j
    WHERE l.digest IS NOT NULL
    ORDER BY j.queue_id, j.id, l.digest
    ON CONFLICT (queue_id, job_id, digest) DO UPDATE SET
      score = least(m.score, excluded.score), error = excluded.error, attempts = excluded.attempts, died_at = excluded.died_at,
      tenant = excluded.tenant, pushed_from = excluded.pushed_from, pushed_before = excluded.pushed_before
  )
  SELECT array_agg(l.place), array_agg(l.digest) INTO _dying, _digests FROM lowest l;

  SELECT array_agg(h.queue_id), array_agg(h.tid), array_agg(d.place), array_agg(h.due), array_agg(h.is_left)
  INTO _owners, _tids, _places, _dues, _left
  FROM unnest(_dying, _digests) AS d(place, digest) CROSS JOIN LATERAL (
    SELECT t.queue_id, t.tid, t.is_left,
      CASE
        WHEN t.is_left OR (SELECT true FROM @schema@.payloads p
              WHERE p.queue_id = t.queue_id AND p.job_id = t.id AND p.fence < _fences[d.place] LIMIT 1)
          THEN clock_timestamp()
        ELSE t.next_perform_in
      END AS due
    FROM (
      SELECT t.queue_id, t.id, t.ctid AS tid, t.next_perform_in,
        t.payload IS NOT NULL AND @schema@.digest_of(t.payload) IS DISTINCT FROM d.digest AS is_left
      FROM @schema@.jobs t
      WHERE t.queue_id = _queue_ids[d.place] AND t.id >= _ids[d.place] COLLATE "C" AND t.id <= _ids[d.place] COLLATE "C"
      ORDER BY t.id LIMIT 1
    ) t
  ) h;
  RETURN QUERY
  UPDATE @schema@.jobs j SET
    retry_count = -1, perform_in = d.due,
    attempts = @schema@.with_attempt(j.attempts, j.error, coalesce(_kinds[d.place], 'failure'), j.retry_count + 1), error = _errors[d.place],
    next_perform_in = NULL, crashes = 0, claimed_by = NULL, claimed_at = NULL,
    score = CASE WHEN d.is_left THEN j.score END, payload = CASE WHEN d.is_left THEN j.payload END,
    headers = CASE WHEN d.is_left THEN j.headers END,
    expires_in = CASE WHEN d.is_left THEN j.expires_in END
  FROM unnest(_owners, _tids, _places, _dues, _left) AS d(queue_id, tid, place, due, is_left)
  WHERE j.queue_id + 0 = d.queue_id AND j.ctid = d.tid AND d.due IS NOT NULL
  RETURNING j.queue_id, j.id, 'again', j.shard, j.lane, @schema@.micros(j.perform_in);

  DELETE FROM @schema@.jobs j USING unnest(_owners, _tids, _dues) AS d(queue_id, tid, due)
  WHERE j.queue_id + 0 = d.queue_id AND j.ctid = d.tid AND d.due IS NULL;
END
$$;

-- Pushes jobs for enqueue_many, which has checked them except for the size of their payloads (see pushed_digest).
-- Returns the fence of the new jobs.
--
-- 1. The job rows come first, in id order, all in one statement. A push that waits for an id has locked nothing behind
--    it, so two pushes can't deadlock, whichever jobs are new, waiting or gone meanwhile. ON CONFLICT locks an existing
--    row, whether or not its WHERE holds, and keeps it locked until the caller commits: no process can claim or
--    complete the job in between, and its fence stays the one that step 3 reads. If an id comes twice, the first one
--    counts.
--    A row in progress gets the start of its next round, once. A waiting row keeps its time, lane and numbers: a push
--    neither hastens nor delays it.
-- 2. The row of a new job carries the first payload of its id. If all ids are new, and none comes twice, that is all. (The
--    rows decide, as in step 3: carries() may become true between two statements of a call.)
-- 3. Otherwise the other payloads go under the fence of their job. If the job waits, that is below the fence of the next
--    claim. If it is in progress, that is the claim's own fence, which the completion spares. Of equal payloads, the
--    headers of the one that was pushed first stay, whichever has the lowest score, and the latest expiry holds (see enqueue).
--    The same holds for two in one call.
--    The row says whether its job has payloads elsewhere. Step 1 says so in each existing row, unless the push merges
--    with what that carries (see covers). If an id comes twice, it's said before the payloads are stored.
--    At REPEATABLE READ and above, a job that was finished since the snapshot is still visible, beside the one that was
--    made of its id since. Its fence, and what it carries, must not count for the new one. So all rows of the ids are
--    locked there, which is refused for the finished one (40001): the caller tries again.
-- Rows are sorted without their payloads, which are looked up by position: a sort of a thousand large ones would go to
-- disk. The lookup of step 3 has a LIMIT for each row, so it can only be a nested loop, and that keeps the order of position.
-- (For how it looks up rows, see claim. Both kinds of sorts are off, so that only the primary key can give the ORDER BY
-- j.id of the lookup in step 3: the planner can't take jobs_due. What no index can give is sorted all the same.)
CREATE OR REPLACE FUNCTION @schema@.put_jobs(
  _queue_id integer,
  _shards integer,
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[],
  _headers jsonb[],
  _tenants text[],
  _expires_ins timestamptz[]
) RETURNS bigint
LANGUAGE plpgsql
@lookups@ SET enable_sort = off SET enable_incremental_sort = off
AS $$
DECLARE
  _fence constant pg_catalog.int8 := nextval('@schema@.fences');
  _carried pg_catalog.int8;
  _repeated pg_catalog.text[];
BEGIN
  -- An array that comes from SQL may start at another index than 1, or have more dimensions than one.
  IF array_lower(_payloads, 1) <> 1 OR array_ndims(_payloads) > 1 THEN
    _payloads := ARRAY(SELECT unnest(_payloads));
  END IF;
  IF array_lower(_headers, 1) <> 1 OR array_ndims(_headers) > 1 THEN
    _headers := ARRAY(SELECT unnest(_headers));
  END IF;

  WITH input AS (
    SELECT DISTINCT ON (i.id COLLATE "C") i.id, i.score, i.perform_in, i.lane, i.position::integer AS position
    FROM unnest(_ids, _scores, _perform_ins, _lanes) WITH ORDINALITY AS i(id, score, perform_in, lane, position)
    ORDER BY i.id COLLATE "C", i.position
  ), put AS (
    INSERT INTO @schema@.jobs AS j (queue_id, shard, lane, perform_in, id, fence, has_payloads, score, payload, headers, tenant, expires_in)
    SELECT _queue_id, @schema@.shard_of(i.id, _shards), coalesce(i.lane, 0::smallint), coalesce(i.perform_in, clock_timestamp()), i.id,
      _fence, NOT @schema@.carries(), coalesce(i.score, extract(epoch FROM clock_timestamp())::double precision * 1000),
      CASE WHEN @schema@.carries() THEN coalesce(_payloads[i.position], '""') END,
      CASE WHEN @schema@.carries() THEN _headers[i.position] END, _tenants[i.position],
      CASE WHEN @schema@.carries() THEN _expires_ins[i.position] END
    FROM input i
    ON CONFLICT (queue_id, id) DO UPDATE SET
      next_perform_in = CASE WHEN j.claimed_by IS NOT NULL THEN coalesce(j.next_perform_in, excluded.perform_in) END, has_payloads = true
      WHERE (j.claimed_by IS NOT NULL AND j.next_perform_in IS NULL)
        OR NOT (j.has_payloads OR @schema@.covers(excluded.payload, excluded.score, excluded.expires_in, j.claimed_by, j.payload, j.score, j.expires_in))
    RETURNING j.fence, j.has_payloads
  )
  SELECT count(*) INTO _carried FROM put WHERE put.fence = _fence AND NOT put.has_payloads;

  IF _carried = cardinality(_ids) THEN
    PERFORM @schema@.checked_text(i.payload, i.position - 1)
    FROM unnest(_payloads) WITH ORDINALITY AS i(payload, position) WHERE pg_column_size(i.payload) > 1300;
    RETURN _fence;
  END IF;

  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM FROM unnest(_ids) AS i(id) CROSS JOIN LATERAL (
      SELECT FROM @schema@.jobs j
      WHERE j.queue_id = _queue_id AND j.id >= i.id COLLATE "C" AND j.id <= i.id COLLATE "C"
      ORDER BY j.id FOR NO KEY UPDATE
    ) j;
  END IF;
  SELECT array_agg(r.id) INTO _repeated
  FROM (SELECT i.id COLLATE "C" AS id FROM unnest(_ids) AS i(id) GROUP BY 1 HAVING count(*) > 1) r;
  IF _repeated IS NOT NULL THEN
    UPDATE @schema@.jobs j SET has_payloads = true
    FROM unnest(_repeated) AS r(id) CROSS JOIN LATERAL (
      SELECT t.queue_id, t.ctid AS tid FROM @schema@.jobs t
      WHERE t.queue_id = _queue_id AND t.id >= r.id COLLATE "C" AND t.id <= r.id COLLATE "C" AND NOT t.has_payloads
      ORDER BY t.id LIMIT 1
    ) h
    WHERE j.queue_id + 0 = h.queue_id AND j.ctid = h.tid;
    IF _headers IS NOT NULL THEN
      SELECT array_agg(f.headers ORDER BY f.position) INTO _headers
      FROM (
        SELECT i.position, first_value(i.headers) OVER (
          PARTITION BY i.id COLLATE "C", @schema@.pushed_digest(coalesce(i.payload, '""'), i.position - 1)
          ORDER BY (_expires_ins[i.position] <= statement_timestamp()) IS TRUE, i.position
        ) AS headers
        FROM unnest(_ids, _payloads, _headers) WITH ORDINALITY AS i(id, payload, headers, position)
      ) f;
    END IF;
    IF _expires_ins IS NOT NULL THEN
      SELECT array_agg(CASE WHEN f.expires_in <= statement_timestamp() THEN f.expires_in ELSE nullif(f.latest, 'infinity') END ORDER BY f.position)
      INTO _expires_ins
      FROM (
        SELECT i.position, i.expires_in, max(coalesce(i.expires_in, 'infinity')) OVER (
          PARTITION BY i.id COLLATE "C", @schema@.pushed_digest(coalesce(i.payload, '""'), i.position - 1)
        ) AS latest
        FROM unnest(_ids, _payloads, _expires_ins) WITH ORDINALITY AS i(id, payload, expires_in, position)
      ) f;
    END IF;
  END IF;
  INSERT INTO @schema@.payloads AS p (queue_id, fence, score, job_id, digest, payload, headers, expires_in)
  SELECT j.queue_id, j.fence, i.score, j.id, i.digest, i.payload, _headers[i.position], i.expires_in
  FROM (
    SELECT d.*, coalesce(_payloads[d.position], '""') AS payload, _expires_ins[d.position] AS expires_in
    FROM (
      SELECT DISTINCT ON (s.id, s.digest) s.*
      FROM (
        SELECT i.id COLLATE "C" AS id, i.position::integer AS position, @schema@.pushed_digest(coalesce(i.payload, '""'), i.position - 1) AS digest,
          coalesce(i.score, extract(epoch FROM clock_timestamp())::double precision * 1000) AS score
        FROM unnest(_ids, _payloads, _scores) WITH ORDINALITY AS i(id, payload, score, position)
      ) s
      ORDER BY s.id, s.digest, (_expires_ins[s.position] <= statement_timestamp()) IS TRUE, s.score, s.position
    ) d
    ORDER BY d.position
  ) i
  CROSS JOIN LATERAL (
    SELECT j.queue_id, j.fence, j.id, j.has_payloads, j.claimed_by, j.payload, j.score, j.expires_in FROM @schema@.jobs j
    WHERE j.queue_id = _queue_id AND j.id >= i.id AND j.id <= i.id
    ORDER BY j.id LIMIT 1
  ) j
  WHERE j.has_payloads AND NOT @schema@.covers(i.payload, i.score, i.expires_in, j.claimed_by, j.payload, j.score, j.expires_in)
  ON CONFLICT (queue_id, job_id, fence, digest) DO UPDATE SET
    score = CASE WHEN p.expires_in <= statement_timestamp() THEN excluded.score ELSE least(p.score, excluded.score) END,
    seq = CASE WHEN p.expires_in <= statement_timestamp() OR excluded.score < p.score THEN excluded.seq ELSE p.seq END,
    headers = CASE WHEN p.expires_in <= statement_timestamp() THEN excluded.headers ELSE p.headers END,
    expires_in = CASE WHEN p.expires_in < coalesce(excluded.expires_in, 'infinity') THEN excluded.expires_in ELSE p.expires_in END
  WHERE p.expires_in < coalesce(excluded.expires_in, 'infinity')
    OR (excluded.score < p.score AND coalesce(excluded.expires_in > statement_timestamp(), true));
  RETURN _fence;
END
$$;

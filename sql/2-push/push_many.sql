-- Pushes jobs for enqueue_many, which has checked them except for the size of their payloads (see pushed_digest).
-- Returns the fence of the new jobs.
--
-- 1. The job rows come first, in id order, all in one statement. A push that waits for an id has locked nothing behind
--    it, so two pushes can't deadlock, whichever jobs are new, waiting or gone meanwhile. ON CONFLICT locks an existing
--    row, whether or not its WHERE holds, and keeps it locked until the caller commits: no process can claim or
--    complete the job in between, and its fence stays the one that step 3 reads. If an id comes twice, the first one
--    counts.
--    A row in progress gets the start of its next round, once. A waiting row stays as it is: a push neither hastens nor
--    delays it.
-- 2. If all ids are new, as in an import, no other session has rows of theirs: their payloads, under a fence that is
--    new too, can't meet equal ones. That saves a third of the work.
-- 3. Otherwise the payloads go under the fence of their job. If the job waits, that is below the fence of the next
--    claim. If it is in progress, that is the claim's own fence, which the completion spares. Of equal payloads, the
--    headers of the one that was pushed first stay, whichever has the lowest score. The same holds for two in one call.
-- (For how it looks up rows, see claim. Both kinds of sorts are off, so that only the primary key can give the ORDER BY
-- j.id of the lookup in step 3: the planner can't take jobs_due. What no index can give is sorted all the same.)
CREATE OR REPLACE FUNCTION @schema@.push_many(
  _queue_id integer,
  _shards integer,
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[],
  _headers jsonb[] DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql
@lookups@ SET enable_sort = off SET enable_incremental_sort = off
AS $$
DECLARE
  _fence constant pg_catalog.int8 := nextval('@schema@.fences');
  _new pg_catalog.int8;
BEGIN
  WITH input AS (
    SELECT DISTINCT ON (i.id COLLATE "C") i.id COLLATE "C" AS id,
      coalesce(i.perform_in, clock_timestamp()) AS perform_in, coalesce(i.lane, 0::smallint) AS lane
    FROM unnest(_ids, _perform_ins, _lanes) WITH ORDINALITY AS i(id, perform_in, lane, position)
    ORDER BY i.id COLLATE "C", i.position
  ), put AS (
    INSERT INTO @schema@.jobs AS j (queue_id, shard, lane, perform_in, id, fence)
    SELECT _queue_id, @schema@.shard_of(i.id, _shards), i.lane, i.perform_in, i.id, _fence FROM input i
    ON CONFLICT (queue_id, id) DO UPDATE SET next_perform_in = excluded.perform_in
      WHERE j.claimed_by IS NOT NULL AND j.next_perform_in IS NULL
    RETURNING j.fence
  )
  SELECT count(*) INTO _new FROM put WHERE put.fence = _fence;

  IF _new = cardinality(_ids) THEN
    INSERT INTO @schema@.payloads (queue_id, fence, score, job_id, digest, payload, headers)
    SELECT _queue_id, _fence,
      coalesce(i.score, extract(epoch FROM clock_timestamp())::double precision * 1000), i.id,
      @schema@.pushed_digest(coalesce(i.payload, '""'), i.position - 1), coalesce(i.payload, '""'), i.headers
    FROM unnest(_ids, _payloads, _scores, _headers) WITH ORDINALITY AS i(id, payload, score, headers, position);
    RETURN _fence;
  END IF;

  IF _headers IS NOT NULL THEN
    SELECT array_agg(f.headers ORDER BY f.position) INTO _headers
    FROM (
      SELECT i.position, first_value(i.headers) OVER (
        PARTITION BY i.id COLLATE "C", @schema@.digest_of(coalesce(i.payload, '""')) ORDER BY i.position
      ) AS headers
      FROM unnest(_ids, _payloads, _headers) WITH ORDINALITY AS i(id, payload, headers, position)
    ) f;
  END IF;
  INSERT INTO @schema@.payloads AS p (queue_id, fence, score, job_id, digest, payload, headers)
  SELECT j.queue_id, j.fence, i.score, j.id, i.digest, i.payload, i.headers
  FROM (
    SELECT DISTINCT ON (s.id, s.digest) s.*
    FROM (
      SELECT i.id COLLATE "C" AS id, i.position, coalesce(i.payload, '""') AS payload, @schema@.pushed_digest(coalesce(i.payload, '""'), i.position - 1) AS digest,
        coalesce(i.score, extract(epoch FROM clock_timestamp())::double precision * 1000) AS score, i.headers
      FROM unnest(_ids, _payloads, _scores, _headers) WITH ORDINALITY AS i(id, payload, score, headers, position)
    ) s
    ORDER BY s.id, s.digest, s.score, s.position
  ) i
  CROSS JOIN LATERAL (
    SELECT j.queue_id, j.fence, j.id FROM @schema@.jobs j
    WHERE j.queue_id = _queue_id AND j.id >= i.id AND j.id <= i.id
    ORDER BY j.id LIMIT 1
  ) j
  ORDER BY i.position
  ON CONFLICT (queue_id, job_id, fence, digest) DO UPDATE SET score = excluded.score, seq = excluded.seq
    WHERE excluded.score < p.score;
  RETURN _fence;
END
$$;

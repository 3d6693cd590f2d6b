-- Pushes jobs for enqueue_many, which has checked them but for their payloads' size (see pushed_digest). Returns the fence of those that are new.
--
-- 1. The job rows first, in id order, all in one statement: whoever pushes has locked nothing behind the id he waits for,
--    so that two pushes can't deadlock, whatever is new, waiting or gone meanwhile. ON CONFLICT locks the row that is there,
--    whether its WHERE holds or not, and keeps it locked until the caller commits: nobody can claim or complete the job
--    in between, and its fence stays what step 3 reads. Of an id that comes twice the first one counts.
--    A row in work gets the start of its next round, once; a waiting row stays as it is: a push neither hastens nor
--    delays it.
-- 2. Where all ids are new, as in an import, nobody else has rows of theirs: their payloads, under a fence that is new too,
--    can meet no equal ones. That saves a third of the work.
-- 3. Else the payloads go under the fence of their job. Pushed into a waiting job, that is below the fence of the claim to
--    come; pushed while in work, it is the claim's own fence, which the completion spares.
-- (How it looks for rows: see claim.)
CREATE OR REPLACE FUNCTION @schema@.push_many(
  _queue_id integer,
  _shards integer,
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[]
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
    INSERT INTO @schema@.payloads (queue_id, fence, score, job_id, digest, payload)
    SELECT _queue_id, _fence,
      coalesce(i.score, extract(epoch FROM clock_timestamp())::double precision * 1000), i.id,
      @schema@.pushed_digest(coalesce(i.payload, '""'), i.position - 1), coalesce(i.payload, '""')
    FROM unnest(_ids, _payloads, _scores) WITH ORDINALITY AS i(id, payload, score, position);
    RETURN _fence;
  END IF;

  INSERT INTO @schema@.payloads AS p (queue_id, fence, score, job_id, digest, payload)
  SELECT j.queue_id, j.fence, i.score, j.id, i.digest, i.payload
  FROM (
    SELECT DISTINCT ON (s.id, s.digest) s.*
    FROM (
      SELECT i.id COLLATE "C" AS id, i.position, coalesce(i.payload, '""') AS payload, @schema@.pushed_digest(coalesce(i.payload, '""'), i.position - 1) AS digest,
        coalesce(i.score, extract(epoch FROM clock_timestamp())::double precision * 1000) AS score
      FROM unnest(_ids, _payloads, _scores) WITH ORDINALITY AS i(id, payload, score, position)
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

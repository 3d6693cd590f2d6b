-- Takes the next due jobs of a lane for a process: a row per payload, in the order a handler gets them, and a
-- last row without an id whose perform_in is that of the next job to come (NULL: none known). Times are in
-- microseconds since 1970; the cursor is the place of the last job taken before.
--
-- 1. Lock due rows in (perform_in, id) order, from the cursor on. Rows that a producer's open transaction holds
--    are skipped, not waited for. A row is claimable if nobody has it, or its process is gone.
--    A job that was in work when its process died may be what killed it: it is taken alone.
-- 2. Only now draw the fences: a fence drawn before the lock could be smaller than one given out in between,
--    and payloads pushed under that one would be missed.
--    Clearing next_perform_in says that this round takes all that was pushed so far.
-- 3. In a later statement, with a newer snapshot, read the payloads below the fence. The locking statement's
--    own snapshot may be older than a push whose commit let us lock the row: its payload would not be handed
--    over, and the completion would delete it unseen. Equal payloads of several rounds fold into the smallest
--    score.
CREATE OR REPLACE FUNCTION @schema@.claim(
  _queue_id integer,
  _shard integer,
  _lane smallint,
  _process_id integer,
  _batch_size integer,
  _max_payloads integer,
  _after bigint,
  _after_id text
) RETURNS TABLE (
  id text, fence bigint, perform_in bigint, retry_count integer, crashes smallint, rescued boolean, error text,
  payload jsonb, score double precision, seq bigint, cut boolean
)
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off
AS $$
DECLARE
  _now constant timestamptz := clock_timestamp();
  _after_perform_in timestamptz := @schema@.from_micros(_after);
  _rows tid[];
  _rescued boolean[];
  _suspects boolean[];
  _taken integer;
BEGIN
  PERFORM @schema@.require_read_committed();
  PERFORM FROM @schema@.queues q WHERE q.queue_id = _queue_id AND q.paused_at IS NULL;
  IF NOT FOUND THEN
    RETURN;
  END IF;

  SELECT array_agg(d.ctid), array_agg(d.claimed_by IS NOT NULL), array_agg(d.claimed_by IS NOT NULL OR d.crashes > 0)
  INTO _rows, _rescued, _suspects
  FROM (
    SELECT j.ctid, j.claimed_by, j.crashes
    FROM @schema@.jobs j
    WHERE j.queue_id = _queue_id AND j.shard = _shard AND j.lane = _lane
      AND j.perform_in <= _now AND (j.perform_in, j.id) > (_after_perform_in, _after_id)
      AND CASE
        WHEN j.claimed_by IS NULL THEN true
        WHEN j.claimed_by = _process_id THEN false
        ELSE @schema@.is_gone(j.claimed_by)
      END
    ORDER BY j.perform_in, j.id
    LIMIT _batch_size
    FOR UPDATE SKIP LOCKED
  ) d;

  IF _rows IS NOT NULL THEN
    _taken := greatest(coalesce(array_position(_suspects, true), cardinality(_rows) + 1) - 1, 1);
    WITH claimed AS (
      UPDATE @schema@.jobs j SET
        fence = nextval('@schema@.fences'), claimed_by = _process_id, claimed_at = clock_timestamp(),
        next_perform_in = NULL, crashes = j.crashes + r.rescued::integer
      FROM unnest(_rows[:_taken], _rescued[:_taken]) AS r(row_id, rescued)
      WHERE j.queue_id = _queue_id AND j.ctid = r.row_id
      RETURNING j.ctid, j.perform_in, j.id
    )
    SELECT array_agg(c.ctid ORDER BY c.perform_in, c.id), max(c.perform_in), (array_agg(c.id ORDER BY c.perform_in DESC, c.id DESC))[1]
    INTO _rows, _after_perform_in, _after_id
    FROM claimed c;

    RETURN QUERY
    SELECT j.id, j.fence, @schema@.micros(j.perform_in), j.retry_count, j.crashes, _rescued[r.place], j.error,
      p.payload, p.score, p.seq, p.cut
    FROM unnest(_rows) WITH ORDINALITY AS r(row_id, place)
    JOIN @schema@.jobs j ON j.queue_id = _queue_id AND j.ctid = r.row_id
    CROSS JOIN LATERAL (
      SELECT f.payload, f.score, f.seq, count(*) OVER () > _max_payloads AS cut
      FROM (
        SELECT DISTINCT ON (p.digest) p.payload, p.score, p.seq
        FROM @schema@.payloads p
        WHERE p.queue_id = _queue_id AND p.job_id = j.id AND p.fence < j.fence
        ORDER BY p.digest, p.score, p.seq
      ) f
      ORDER BY f.score, f.seq
      LIMIT _max_payloads
    ) p
    ORDER BY r.place, p.score, p.seq;
  END IF;

  perform_in := (
    SELECT @schema@.micros(j.perform_in) FROM @schema@.jobs j
    WHERE j.queue_id = _queue_id AND j.shard = _shard AND j.lane = _lane
      AND (j.perform_in, j.id) > (_after_perform_in, _after_id) AND j.claimed_by IS NULL
    ORDER BY j.perform_in, j.id LIMIT 1
  );
  RETURN NEXT;
END
$$;

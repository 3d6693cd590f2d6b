-- Takes the next due jobs of a lane for a process: a row per payload, in the order a handler gets them, and a
-- last row without an id whose perform_in is that of the next job to come (NULL: none known). Times are in
-- microseconds since 1970; the cursor is the place of the last job taken before.
--
-- A paused queue gives nothing, and a process whose lease has ended gets nothing: its claim would be anybody's at
-- once. That is asked here because a process that was frozen knows of it last.
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
--
-- Plans are made once and kept while tables grow from nothing to millions, so no statement may have a plan that
-- only a small table makes look good. Where rows are joined, OFFSET 0 hides that their queue is one and the same:
-- what is left to the planner is one index probe a row. The settings rule out the rest.
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
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off
AS $$
DECLARE
  _now constant timestamptz := clock_timestamp();
  _after_perform_in timestamptz := @schema@.from_micros(_after);
  _ids text[];
  _fences bigint[];
  _perform_ins timestamptz[];
  _retry_counts integer[];
  _crashes integer[];
  _errors text[];
  _rescued boolean[];
  _suspects boolean[];
  _taken integer;
BEGIN
  PERFORM @schema@.require_read_committed();
  PERFORM FROM @schema@.queues q, @schema@.processes p
  WHERE q.queue_id = _queue_id AND q.paused_at IS NULL
    AND p.process_id = _process_id AND p.expires_at > clock_timestamp();
  IF NOT FOUND THEN
    RETURN;
  END IF;

  SELECT array_agg(d.id), array_agg(d.perform_in), array_agg(d.retry_count), array_agg(d.crashes), array_agg(d.error),
    array_agg(d.claimed_by IS NOT NULL), array_agg(d.claimed_by IS NOT NULL OR d.crashes > 0)
  INTO _ids, _perform_ins, _retry_counts, _crashes, _errors, _rescued, _suspects
  FROM (
    SELECT j.id, j.perform_in, j.retry_count, j.crashes::integer, j.error, j.claimed_by
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

  IF _ids IS NOT NULL THEN
    _taken := greatest(coalesce(array_position(_suspects, true), cardinality(_ids) + 1) - 1, 1);
    WITH claimed AS (
      UPDATE @schema@.jobs j SET
        fence = nextval('@schema@.fences'), claimed_by = _process_id, claimed_at = clock_timestamp(),
        next_perform_in = NULL, crashes = j.crashes + r.rescued::integer
      FROM (
        SELECT _queue_id AS queue_id, t.* FROM unnest(_ids[:_taken], _rescued[:_taken]) WITH ORDINALITY AS t(id, rescued, place) OFFSET 0
      ) r
      WHERE j.queue_id = r.queue_id AND j.id = r.id
      RETURNING r.place, j.fence
    )
    SELECT array_agg(c.fence ORDER BY c.place) INTO _fences FROM claimed c;

    RETURN QUERY
    SELECT c.id, c.fence, @schema@.micros(_perform_ins[c.place]), _retry_counts[c.place],
      (_crashes[c.place] + _rescued[c.place]::integer)::smallint, _rescued[c.place], _errors[c.place],
      p.payload, p.score, p.seq, p.cut
    FROM unnest(_ids[:_taken], _fences) WITH ORDINALITY AS c(id, fence, place)
    LEFT JOIN LATERAL (
      SELECT f.payload, f.score, f.seq, count(*) OVER () > _max_payloads AS cut
      FROM (
        SELECT DISTINCT ON (p.digest) p.payload, p.score, p.seq
        FROM @schema@.payloads p
        WHERE p.queue_id = _queue_id AND p.job_id = c.id AND p.fence < c.fence
        ORDER BY p.digest, p.score, p.seq
      ) f
      ORDER BY f.score, f.seq
      LIMIT _max_payloads
    ) p ON true
    ORDER BY c.place, p.score, p.seq;

    _after_perform_in := _perform_ins[_taken];
    _after_id := _ids[_taken];
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

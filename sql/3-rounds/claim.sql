-- Claims the next due jobs of each lane for a process. Returns for the lane at each `place`: a row for each payload,
-- those of a job together, and then a row without a fence, whose perform_in is that of the next job to come (NULL: none
-- known). What describes a job counts in its first row, the only one with an id. If retry_count, crashes, rescued and
-- error are NULL there, they are those of a job that has never run. Times are in microseconds since 1970. A lane's
-- cursor is the place of the last job taken from it before, or, with an empty id, a time that was reported. In the
-- latter case, or if this claim takes nothing from the lane, the next job to come is looked for from the cursor on. So
-- it may be one that was passed over because its row was locked: `cut` says whether it lies before the last one taken.
-- Otherwise it is looked for behind the last one taken: from the cursor on, all rows that were just taken would be read
-- again.
--
-- Of a queue with limits, take_within_limits has a say in what is locked, and note_taken notes it; what they are for stands
-- there. If limits keep jobs of a lane waiting, the payload of its row without a fence says which, as JSON (`waits`), and the
-- next job to come is one behind those that were passed over. `_spots`: what the caller knows of jobs that the lanes have passed;
-- of no account for queues without limits, which cost one column of their row to know it.
--
-- A paused queue gives nothing. A process (but 0, see claim_leased) that others have removed gets nothing: any other process could take its claim
-- at once. That is checked here because a process that was frozen is the last to know of its removal. If it is removed
-- at this very moment, the claim comes to nothing: the remover knows that the lease is over by the removed process's
-- own clock. So that process begins nothing, and others may have the rows at once.
--
-- Before the first claim of a session, note_timeline makes fences continue above those of the server's past.
--
-- A claim is committed so that a crash of the server doesn't forget it, whatever the default of synchronous_commit is:
-- otherwise another process would take it while its handler runs. It is set even if the default will do, because the
-- server may be given another default before the COMMIT, which comes in a message of its own. The setting lasts until
-- the end of the transaction, so that it reaches no other client, even behind a pooler.
--
-- 1. Lock due rows in (perform_in, id) order, from the cursor on. Rows that a producer's open transaction holds are
--    skipped, not waited for. A row can be claimed if no process has claimed it, or if the process that has is gone.
--    They come lane by lane in the order of the call, since each LATERAL subquery needs the lane: so their places
--    ascend.
--    A job that was in progress when its process died may be what killed it, so it is taken alone. (A statement of its
--    own sees to that, as such jobs are rare: a window over all rows would make every claim slower.)
-- 2. Only now draw the fence, which all these rows share. A fence drawn before the locks could be smaller than one
--    given out in between, and payloads pushed under that one would be missed. If the fence is not above those of the
--    locked rows, the sequence is behind its rows, as after a restore or a failover: the round would find no payload
--    below it, and its completion would delete the job as done. So nothing is claimed until an administrator sets the
--    sequence. If this function set it, two sessions that did so at once could set it back.
--    Clearing next_perform_in says that this round takes everything that was pushed so far.
--    No other session can move a locked row, so its ctid finds it: within its partition, if the table has been
--    partitioned by queue, so the queue stands beside each ctid. (As queue_id + 0, or the planner might take an index
--    on it instead.) If all lanes are of one queue, as they mostly are, one scan finds all rows.
-- 3. Most jobs have no payload but the one that their row carries. It came with the lock, on the newest version of the
--    row, which also says whether there are others. If so, they are read below the fence in a later statement, with a
--    newer snapshot. So is a carried one of more than some 2,000 bytes, which may lie elsewhere, compressed. The
--    locking statement's own snapshot may be older than a push whose commit let us lock the row: its payload would not
--    be handed over, and the completion would delete it unseen. The payloads come as they lie there: sorting them, and
--    folding equal ones of several rounds, is the client's part, except if a number of payloads limits the round (see
--    payloads_of_round). The carried one was pushed first: it has the number 0.
-- 4. The answer carries no more than `_budget` bytes of payloads. A round that is left out, because it did not fit or
--    is longer than its own `_max_bytes`, is `passed`: it has been claimed, but what came of its payloads does not
--    count, and load_payloads brings them. So what is too much for a client or its connection is asked for only after
--    the claim has been committed: if the client dies of it, its crash is counted (R10), and other rounds are not held
--    up by it. Payloads are turned into text one by one, and none after the budget is used up: a large one is stored
--    compressed and in pieces, so its true size is known only once it has been put together. (In a loop, since a query
--    that adds up sizes would put all of them together.) However short, a payload counts as 64 bytes: a row costs a
--    client more than its text.
--
-- `expires_in` comes with each payload: whoever hands it over looks at the clock again. `expired` says how many payloads a row stands
-- for that had expired when the round was claimed (`claimed_at`): they are as if they were not there, wherever payloads of the
-- round are united, chosen or buried (see payloads_of_round, taken_of, bury_failed). It is the same time for all of a claim, so
-- what the client leaves out is what the completion leaves out. Jobs none of which expire cost the claim one more array.
--
-- Scores come as text with all their digits, whatever the session's extra_float_digits is, so that they come back as
-- exactly what was taken.
--
-- Plans are made once and kept while tables grow from nothing to millions, so no statement may have a plan that looks
-- good only for a small table. Worse, if an ANALYZE finds no live rows, the planner takes the tables for empty, while
-- their indexes are full of dead rows that some open transaction may still see: reading a whole index seems as good as
-- a probe. So the planner is left nothing but probes, here and in all functions that workers and producers call. The
-- settings rule out other kinds of scans and joins. Rows are looked up by a LATERAL subquery: with OFFSET 0 or a lock,
-- the planner can't merge it into the join and turn that around. If both indexes of the jobs have the columns, the
-- order asked for, which no sort may bring about, leaves only the primary key: id >= x AND id <= x ORDER BY id. (If the
-- condition were id = x, either index would give that order.) In the same way, ORDER BY perform_in, id leaves this
-- function only jobs_due, for the due rows and for the next job to come.
DROP FUNCTION IF EXISTS @schema@.claim(
  integer, integer[], integer[], smallint[], integer[], integer[], integer[], bigint[], text[], bigint
);
CREATE OR REPLACE FUNCTION @schema@.claim(
  _process_id integer,
  _queue_ids integer[],
  _shards integer[],
  _lanes smallint[],
  _counts integer[],
  _max_payloads integer[],
  _max_bytes integer[],
  _after bigint[],
  _after_ids text[],
  _budget bigint,
  _spots jsonb DEFAULT NULL
) RETURNS TABLE (
  place integer, id text, fence bigint, perform_in bigint, retry_count integer, crashes smallint, rescued boolean,
  error text, payload text, headers text, score text, seq bigint, cut boolean, passed boolean, tenant text,
  expires_in bigint, expired integer
)
LANGUAGE plpgsql
SET extra_float_digits = 1
@lookups@ SET enable_sort = off
AS $$
DECLARE
  _now constant timestamptz := clock_timestamp();
  _places integer[];
  _tids tid[];
  _ids text[];
  _fence bigint;
  _highest bigint;
  _claimed integer;
  _perform_ins timestamptz[];
  _retry_counts integer[];
  _crashes integer[];
  _errors text[];
  _rescued boolean[];
  _payloads jsonb[];
  _headers jsonb[];
  _scores double precision[];
  _others boolean[];
  _large boolean[];
  _tenants text[];
  _expires_ins timestamptz[];
  _mixed boolean;
  _expiring boolean;
  _claimed_at timestamptz;
  _suspects boolean;
  _have_run boolean;
  _n integer;
  _last integer := 0;
  _size integer;
  _floor bigint;
  _limited integer[];
  _waits jsonb;
  _wait jsonb;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM @schema@.require_read_committed();
  END IF;
  PERFORM set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true);
  IF current_setting('lockstep.timeline_noted', true) IS DISTINCT FROM '@schema@' THEN
    PERFORM @schema@.note_timeline();
    PERFORM set_config('lockstep.timeline_noted', '@schema@', false);
  END IF;
  SELECT ARRAY(
    SELECT q.queue_id FROM @schema@.queues q
    WHERE q.queue_id = ANY (_queue_ids) AND q.limits IS NOT NULL AND q.paused_at IS NULL ORDER BY q.queue_id
  ) INTO _limited
  WHERE _process_id = 0 OR (SELECT true FROM @schema@.processes p WHERE p.process_id = _process_id);
  IF NOT FOUND THEN
    RETURN;
  END IF;

  SELECT array_agg(w.place), array_agg(d.ctid), array_agg(d.id), array_agg(d.perform_in), array_agg(d.retry_count),
    array_agg(d.crashes), array_agg(d.error), array_agg(d.claimed_by IS NOT NULL),
    array_agg(CASE WHEN d.is_small THEN d.payload END), array_agg(CASE WHEN d.is_small THEN d.headers END), array_agg(d.score),
    array_agg(d.has_payloads), array_agg(NOT d.is_small), array_agg(d.tenant), array_agg(d.expires_in), max(d.fence),
    bool_or(d.claimed_by IS NOT NULL OR d.crashes > 0),
    bool_or(d.retry_count >= 0 OR d.error IS NOT NULL)
  INTO _places, _tids, _ids, _perform_ins, _retry_counts, _crashes, _errors, _rescued, _payloads, _headers, _scores,
    _others, _large, _tenants, _expires_ins, _highest, _suspects, _have_run
  FROM unnest(_queue_ids, _shards, _lanes, _counts, _after, _after_ids)
    WITH ORDINALITY AS w(queue_id, shard, lane, count, after, after_id, place)
  CROSS JOIN LATERAL (SELECT FROM @schema@.queues q WHERE q.queue_id = w.queue_id AND q.paused_at IS NULL OFFSET 0) q
  CROSS JOIN LATERAL (
    SELECT j.ctid, j.id, j.perform_in, j.retry_count, j.crashes::integer, j.error, j.claimed_by, j.fence,
      j.has_payloads, j.payload, j.headers, j.score, j.tenant, j.expires_in,
      CASE
        WHEN j.payload IS NULL THEN true
        ELSE pg_column_size(j.payload) <= 2100 AND pg_column_compression(j.payload) IS NULL
          AND (j.headers IS NULL OR pg_column_size(j.headers) <= 2100 AND pg_column_compression(j.headers) IS NULL)
      END AS is_small
    FROM @schema@.jobs j
    WHERE j.queue_id = w.queue_id AND j.shard = w.shard AND j.lane = w.lane
      AND j.perform_in <= _now AND (j.perform_in, j.id) > (@schema@.from_micros(w.after), w.after_id)
      AND CASE
        WHEN j.claimed_by IS NULL THEN true
        WHEN j.claimed_by = _process_id THEN false
        ELSE @schema@.is_gone(j.claimed_by)
      END
    ORDER BY j.perform_in, j.id
    LIMIT CASE WHEN w.queue_id = ANY (_limited) THEN 0 ELSE w.count END
    FOR UPDATE SKIP LOCKED
  ) d;
  IF _limited <> '{}' THEN
    WITH l AS MATERIALIZED (
      SELECT t.*, row_number() OVER () AS n
      FROM @schema@.take_within_limits(_process_id, _now, _limited, _queue_ids, _shards, _lanes, _counts, _after, _after_ids, _spots) t
    )
    SELECT array_agg(s.place), array_agg(s.tid), array_agg(s.id), array_agg(s.perform_in), array_agg(s.retry_count),
      array_agg(s.crashes), array_agg(s.error), array_agg(s.rescued), array_agg(s.payload), array_agg(s.headers),
      array_agg(s.score), array_agg(s.others), array_agg(s.large), array_agg(s.tenant), array_agg(s.expires_in), max(s.fence),
      bool_or(s.rescued OR s.crashes > 0), bool_or(s.retry_count >= 0 OR s.error IS NOT NULL),
      (SELECT jsonb_object_agg(l.place, l.waits) FROM l WHERE l.waits IS NOT NULL)
    INTO _places, _tids, _ids, _perform_ins, _retry_counts, _crashes, _errors, _rescued, _payloads, _headers, _scores, _others,
      _large, _tenants, _expires_ins, _highest, _suspects, _have_run, _waits
    FROM (
      SELECT t.*, _highest AS fence
      FROM unnest(_places, _tids, _ids, _perform_ins, _retry_counts, _crashes, _errors, _rescued, _payloads, _headers, _scores, _others,
        _large, _tenants, _expires_ins) WITH ORDINALITY
        AS t(place, tid, id, perform_in, retry_count, crashes, error, rescued, payload, headers, score, others, large, tenant, expires_in, n)
      UNION ALL
      SELECT l.place, l.tid, l.id, l.perform_in, l.retry_count, l.crashes, l.error, l.rescued, l.payload, l.headers, l.score, l.others,
        l.large, l.tenant, l.expires_in, l.n, l.fence
      FROM l WHERE l.tid IS NOT NULL
      ORDER BY 1, 16
    ) s;
    FOR _n, _wait IN SELECT e.key::integer, e.value FROM jsonb_each(_waits) e LOOP
      _after[_n] := coalesce(_wait->>'headFrom', _wait->>'to');
      _after_ids[_n] := CASE WHEN _wait ? 'headFrom' THEN '' ELSE _wait->>'toId' END;
    END LOOP;
  END IF;
  IF _suspects THEN
    SELECT array_agg(s.place), array_agg(s.tid), array_agg(s.id), array_agg(s.perform_in), array_agg(s.retry_count),
      array_agg(s.crashes), array_agg(s.error), array_agg(s.rescued), array_agg(s.payload), array_agg(s.headers),
      array_agg(s.score), array_agg(s.others), array_agg(s.large), array_agg(s.tenant), array_agg(s.expires_in)
    INTO _places, _tids, _ids, _perform_ins, _retry_counts, _crashes, _errors, _rescued, _payloads, _headers, _scores, _others,
      _large, _tenants, _expires_ins
    FROM (
      SELECT t.*, row_number() OVER lane AS nth, bool_or(t.rescued OR t.crashes > 0) OVER lane AS suspect
      FROM unnest(_places, _tids, _ids, _perform_ins, _retry_counts, _crashes, _errors, _rescued, _payloads, _headers, _scores, _others,
        _large, _tenants, _expires_ins) WITH ORDINALITY
        AS t(place, tid, id, perform_in, retry_count, crashes, error, rescued, payload, headers, score, others, large, tenant, expires_in, n)
      WINDOW lane AS (PARTITION BY t.place ORDER BY t.n)
    ) s
    WHERE s.nth = 1 OR NOT s.suspect;
  END IF;

  IF _ids IS NOT NULL THEN
    _fence := nextval('@schema@.fences');
    IF _fence <= _highest THEN
      RAISE EXCEPTION 'the sequence of fences is behind its rows (% after %), as after a restore or a failover', _fence, _highest
        USING ERRCODE = 'LK005', HINT = 'run: SELECT setval(''@schema@.fences'', greatest((SELECT last_value FROM @schema@.fences), (SELECT max(fence) FROM @schema@.jobs)))';
    END IF;
    _claimed_at := clock_timestamp();
    IF _queue_ids[1] = ALL (_queue_ids) AND NOT _suspects THEN
      UPDATE @schema@.jobs j SET
        fence = _fence, claimed_by = _process_id, claimed_at = _claimed_at,
        next_perform_in = NULL, crashes = j.crashes + (j.claimed_by IS NOT NULL)::integer
      WHERE j.queue_id + 0 = _queue_ids[1] AND j.ctid = ANY (_tids);
    ELSE
      UPDATE @schema@.jobs j SET
        fence = _fence, claimed_by = _process_id, claimed_at = _claimed_at,
        next_perform_in = NULL, crashes = j.crashes + (j.claimed_by IS NOT NULL)::integer,
        attempts = CASE
          WHEN j.claimed_by IS NULL THEN j.attempts
          ELSE @schema@.with_attempt(j.attempts, j.error, 'crash', j.retry_count)
        END
      FROM unnest(_places, _tids) AS r(place, tid)
      WHERE j.queue_id + 0 = _queue_ids[r.place] AND j.ctid = r.tid;
    END IF;
    GET DIAGNOSTICS _claimed = ROW_COUNT;
    IF _claimed <> cardinality(_ids) THEN
      RAISE EXCEPTION 'a job that was locked could not be claimed: is there a trigger or a policy on the table of jobs?';
    END IF;
    IF _limited <> '{}' THEN
      PERFORM @schema@.note_taken(_process_id, _limited, _fence, _queue_ids, _places, _ids, _tenants);
    END IF;

    fence := _fence;
    _mixed := true = ANY (_others) OR true = ANY (_large);
    _expiring := array_remove(_expires_ins, NULL) <> '{}';
    IF NOT _mixed THEN
      FOR _n, place, id, perform_in, payload, headers, score, tenant, seq IN
        SELECT c.n::integer, c.place, c.id, @schema@.micros(c.perform_in), c.payload, c.headers, c.score::text, c.tenant,
          CASE WHEN c.payload IS NOT NULL THEN 0::bigint END
        FROM unnest(_places, _ids, _perform_ins, _payloads, _headers, _scores, _tenants) WITH ORDINALITY
          AS c(place, id, perform_in, payload, headers, score, tenant, n)
      LOOP
        _last := _n;
        IF _have_run OR _suspects THEN
          retry_count := _retry_counts[_n];
          crashes := _crashes[_n] + _rescued[_n]::integer;
          rescued := _rescued[_n];
          error := _errors[_n];
        END IF;
        IF _expiring THEN
          expires_in := @schema@.micros(_expires_ins[_n]);
          expired := (_expires_ins[_n] <= _claimed_at)::integer;
        END IF;
        _size := octet_length(payload) + coalesce(octet_length(headers), 0);
        _budget := _budget - greatest(_size, 64);
        IF _budget < 0 OR _size > _max_bytes[place] THEN
          payload := NULL;
          headers := NULL;
          passed := true;
          RETURN NEXT;
          EXIT WHEN _budget < 0;
          passed := NULL;
          CONTINUE;
        END IF;
        RETURN NEXT;
      END LOOP;
    ELSE
      FOR _n, payload, headers, score, seq, cut, tenant, expires_in, expired IN
        SELECT c.n::integer, p.payload, p.headers, p.score::text, p.seq, NULL::boolean, c.tenant,
          @schema@.micros(p.expires_in), (p.expires_in <= _claimed_at)::integer
        FROM unnest(_places, _ids, _payloads, _headers, _scores, _others, _large, _tenants, _expires_ins) WITH ORDINALITY
          AS c(place, id, payload, headers, score, others, large, tenant, expires_in, n)
        LEFT JOIN LATERAL (
          SELECT c.payload, c.headers, c.score, 0::bigint AS seq, c.expires_in WHERE c.payload IS NOT NULL
          UNION ALL
          SELECT l.* FROM (
            SELECT j.payload, j.headers, j.score, 0::bigint, j.expires_in FROM @schema@.jobs j
            WHERE j.queue_id = _queue_ids[c.place] AND j.id >= c.id AND j.id <= c.id AND c.large AND j.payload IS NOT NULL
            ORDER BY j.id LIMIT 1
          ) l
          UNION ALL
          SELECT p.payload, p.headers, p.score, p.seq, p.expires_in FROM @schema@.payloads p
          WHERE c.others AND p.queue_id = _queue_ids[c.place] AND p.job_id = c.id AND p.fence < _fence
        ) p ON true
        WHERE _max_payloads[c.place] IS NULL
        UNION ALL
        SELECT c.n::integer, p.payload, p.headers, p.score::text, p.seq, p.cut, c.tenant,
          @schema@.micros(p.expires_in), p.expired
        FROM unnest(_places, _ids, _tenants) WITH ORDINALITY AS c(place, id, tenant, n)
        LEFT JOIN LATERAL @schema@.payloads_of_round(
          _queue_ids[c.place], c.id, _fence, _max_payloads[c.place], _max_bytes[c.place]
        ) p ON true
        WHERE _max_payloads[c.place] IS NOT NULL AND cardinality(array_remove(_max_payloads, NULL)) > 0
      LOOP
        IF _n <> _last THEN
          _last := _n;
          place := _places[_n];
          id := _ids[_n];
          perform_in := @schema@.micros(_perform_ins[_n]);
          passed := NULL;
          _floor := greatest(_budget - _max_bytes[place], 0);
          IF _have_run OR _suspects THEN
            retry_count := _retry_counts[_n];
            crashes := _crashes[_n] + _rescued[_n]::integer;
            rescued := _rescued[_n];
            error := _errors[_n];
          END IF;
        ELSIF passed OR id IS NOT NULL THEN
          CONTINUE WHEN passed;
          id := NULL;
          perform_in := NULL;
          tenant := NULL;
        END IF;
        _budget := _budget - greatest(octet_length(payload) + coalesce(octet_length(headers), 0), 64);
        IF _budget < _floor THEN
          payload := NULL;
          headers := NULL;
          passed := true;
          RETURN NEXT;
          EXIT WHEN _budget < 0;
          CONTINUE;
        END IF;
        RETURN NEXT;
      END LOOP;
    END IF;

    IF _budget < 0 THEN
      RETURN QUERY
      SELECT c.place, c.id, _fence, @schema@.micros(c.perform_in), c.retry_count,
        (c.crashes + c.rescued::integer)::smallint, c.rescued, c.error, NULL, NULL, NULL, NULL::bigint, false, true, c.tenant,
        NULL::bigint, NULL::integer
      FROM unnest(_places, _ids, _perform_ins, _retry_counts, _crashes, _rescued, _errors, _tenants) WITH ORDINALITY
        AS c(place, id, perform_in, retry_count, crashes, rescued, error, tenant, n)
      WHERE CASE WHEN _mixed THEN (_max_payloads[c.place] IS NOT NULL, c.n) > (_max_payloads[_places[_last]] IS NOT NULL, _last) ELSE c.n > _last END;
    END IF;
  END IF;

  RETURN QUERY
  SELECT w.place::integer, NULL, NULL::bigint, @schema@.micros(h.perform_in), NULL::integer, NULL::smallint,
    NULL::boolean, NULL, _waits->>w.place::text, NULL, NULL, NULL::bigint,
    coalesce((h.perform_in, h.id) < (_perform_ins[t.n], _ids[t.n]), false), NULL::boolean, NULL, NULL::bigint, NULL::integer
  FROM unnest(_queue_ids, _shards, _lanes, _after, _after_ids) WITH ORDINALITY
    AS w(queue_id, shard, lane, after, after_id, place)
  JOIN @schema@.queues q ON q.queue_id = w.queue_id AND q.paused_at IS NULL
  LEFT JOIN LATERAL (SELECT width_bucket(w.place::integer, _places) AS n OFFSET 0) t ON _places[t.n] = w.place
  LEFT JOIN LATERAL (
    SELECT j.perform_in, j.id FROM @schema@.jobs j
    WHERE j.queue_id = w.queue_id AND j.shard = w.shard AND j.lane = w.lane AND j.claimed_by IS NULL
      AND (j.perform_in, j.id) > (
        CASE WHEN t.n IS NULL OR w.after_id = '' OR _waits ? w.place::text THEN @schema@.from_micros(w.after) ELSE _perform_ins[t.n] END,
        CASE WHEN t.n IS NULL OR w.after_id = '' OR _waits ? w.place::text THEN w.after_id ELSE _ids[t.n] END
      )
    ORDER BY j.perform_in, j.id LIMIT 1
  ) h ON true;
END
$$;

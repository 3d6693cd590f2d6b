-- Removes payloads that have expired from jobs that wait unclaimed, and jobs of which nothing is left, of all queues: also of
-- paused ones, and of jobs that are due far in the future. A round in progress leaves out what has expired by itself. It reads no
-- more than `_most` payloads, from a cursor of each queue on, in the order in which they expired: so it doesn't read the dead
-- entries of those before again, however long an old snapshot keeps them. Returns a row for each queue in which something has
-- expired: how many payloads and jobs it has removed, the cursor from which to go on, and whether there may be more behind it.
-- What it has skipped lies before that; so a cursor goes back to the beginning now and then.
--
-- 1. The payloads that have expired, behind the cursor. If there are as many as it may read, the last job may have more of them:
--    it is left to the next call. If all are of one job, the cursor stays until the job has none left that it could remove.
-- 2. Lock their jobs. Those in progress are skipped, and those that a producer's open transaction holds: it may prolong a payload.
-- 3. Only now remove what has expired, by the newest versions of the rows, and then see what is left: that is a statement of its
--    own, which sees what was committed before the lock. No push can come in between, since it would need the row's lock, and no
--    claim either. A payload that was prolonged meanwhile is a new version of its row, elsewhere; and if another payload has
--    its place by now, that goes only if it has expired and its job is locked, too.
--    The row's own payload goes by what the locked row says.
--
-- No statement waits for a row, so it can't be part of a deadlock. If the process or the server dies in it, nothing has happened.
-- (For how it looks up rows, see claim. Sorts are off, so that only the indexes of what expires can give the order of step 1. Columns
-- beside a ctid are wrapped up: the planner must not take an index for them.)
-- It runs with its owner's rights, for the workers' role.
CREATE OR REPLACE FUNCTION @schema@.remove_expired(
  _queue_ids integer[], _after bigint[], _after_ids text[], _most integer DEFAULT 1000
) RETURNS TABLE (queue_id integer, queue text, payloads bigint, jobs bigint, after bigint, after_id text, is_more boolean)
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
@lookups@ SET enable_sort = off SET enable_incremental_sort = off
AS $$
#variable_conflict use_column
DECLARE
  _now constant pg_catalog.timestamptz := clock_timestamp();
  _left integer := _most;
  _queue pg_catalog.record;
  _times pg_catalog.timestamptz[];
  _ids text[];
  _tids pg_catalog.tid[];
  _last integer;
  _held text[];
  _rows pg_catalog.tid[];
  _carrying boolean[];
  _others boolean[];
  _cleared pg_catalog.tid[];
  _ended pg_catalog.tid[];
BEGIN
  PERFORM @schema@.require_read_committed();
  FOR _queue IN
    SELECT q.queue_id, q.name, @schema@.from_micros(c.after) AS after, coalesce(c.after_id, '') AS after_id
    FROM @schema@.queues q LEFT JOIN unnest(_queue_ids, _after, _after_ids) AS c(queue_id, after, after_id) ON c.queue_id = q.queue_id
    ORDER BY q.queue_id
  LOOP
    SELECT array_agg(e.expires_in), array_agg(e.id), array_agg(e.tid) INTO _times, _ids, _tids
    FROM (
      (SELECT j.expires_in, j.id, NULL::pg_catalog.tid AS tid FROM @schema@.jobs j
       WHERE j.queue_id = _queue.queue_id AND j.expires_in <= _now AND (j.expires_in, j.id) > (_queue.after, _queue.after_id)
       ORDER BY j.expires_in, j.id LIMIT _left)
      UNION ALL
      (SELECT p.expires_in, p.job_id, p.ctid FROM @schema@.payloads p
       WHERE p.queue_id = _queue.queue_id AND p.expires_in <= _now AND (p.expires_in, p.job_id) > (_queue.after, _queue.after_id)
       ORDER BY p.expires_in, p.job_id LIMIT _left)
      ORDER BY 1, 2 LIMIT _left
    ) e;
    CONTINUE WHEN _ids IS NULL;
    is_more := cardinality(_ids) >= _left;
    _left := _left - cardinality(_ids);
    _last := cardinality(_ids);
    WHILE is_more AND _last > 0 AND (_times[_last], _ids[_last]) = (_times[cardinality(_ids)], _ids[cardinality(_ids)]) LOOP
      _last := _last - 1;
    END LOOP;

    SELECT array_agg(h.id), array_agg(h.tid), array_agg(h.payload IS NOT NULL AND (h.expires_in <= _now) IS NOT TRUE),
      array_agg(h.has_payloads), array_agg(h.tid) FILTER (WHERE h.expires_in <= _now)
    INTO _held, _rows, _carrying, _others, _cleared
    FROM (SELECT DISTINCT u.id COLLATE "C" AS id FROM unnest(_ids[:CASE WHEN _last > 0 THEN _last ELSE cardinality(_ids) END]) AS u(id)) u
    CROSS JOIN LATERAL (
      SELECT j.id, j.ctid AS tid, j.payload, j.expires_in, j.has_payloads FROM @schema@.jobs j
      WHERE j.queue_id = _queue.queue_id AND j.id >= u.id AND j.id <= u.id AND j.claimed_by IS NULL
      ORDER BY j.id FOR UPDATE SKIP LOCKED
    ) h;

    DELETE FROM @schema@.payloads p
    WHERE p.queue_id + 0 = _queue.queue_id AND p.ctid = ANY (_tids)
      AND p.job_id || '' = ANY (_held) AND p.expires_in + interval '0' <= _now;
    GET DIAGNOSTICS payloads = ROW_COUNT;
    SELECT array_agg(h.tid) INTO _ended
    FROM unnest(_held, _rows, _carrying, _others) AS h(id, tid, carries, others)
    WHERE NOT h.carries AND CASE
      WHEN NOT h.others THEN true
      ELSE (SELECT true FROM @schema@.payloads p WHERE p.queue_id = _queue.queue_id AND p.job_id = h.id COLLATE "C" LIMIT 1) IS NULL
    END;
    UPDATE @schema@.jobs j SET score = NULL, payload = NULL, headers = NULL, expires_in = NULL
    WHERE j.queue_id + 0 = _queue.queue_id AND j.ctid = ANY (_cleared) AND j.ctid <> ALL (coalesce(_ended, '{}'));
    DELETE FROM @schema@.jobs j WHERE j.queue_id + 0 = _queue.queue_id AND j.ctid = ANY (_ended);
    GET DIAGNOSTICS jobs = ROW_COUNT;

    queue_id := _queue.queue_id;
    queue := _queue.name;
    payloads := payloads + coalesce(cardinality(_cleared), 0);
    IF _last = 0 AND payloads = 0 THEN
      _last := cardinality(_ids);
    END IF;
    after := @schema@.micros(CASE WHEN _last = 0 THEN nullif(_queue.after, '-infinity') ELSE _times[_last] END);
    after_id := CASE WHEN _last = 0 THEN _queue.after_id ELSE _ids[_last] END;
    RETURN NEXT;
    EXIT WHEN _left <= 0;
  END LOOP;
END
$$;
REVOKE ALL ON FUNCTION @schema@.remove_expired FROM PUBLIC;

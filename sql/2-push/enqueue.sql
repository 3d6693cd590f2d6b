-- Pushes one job, for every language that speaks SQL:
--   SELECT @schema@.enqueue('orders', 'order-1', '{"status": "paid"}');
-- `score` orders the payloads of one id (default: now in ms since 1970). `perform_in` is when the job may start
-- (default: now). `lane` is its class of service (default: 0, or by its tenant, see lanes_of). `headers` is a JSON object that
-- goes with the payload. `tenant` says for whom the job is. What is not handed over by `expires_in` never is (default: no such
-- time).
-- Returns true if it made a new job of the id, and false if the payload joined one that waits or is in work.
--
-- It does what enqueue_many does, with its rights (see there), but in few and short statements: most of what one job
-- costs the server is preparing each statement, and each of its expressions, to run.
--
-- The job row comes first. It is locked from then on, whether or not ON CONFLICT has changed it, so its fence stays the
-- one that the payload goes under. If that is the fence drawn here, the job is new, and its row carries the payload.
-- Otherwise the row says from then on that the job has payloads elsewhere, unless the payload merges with the one that
-- the row carries (see covers).
-- A queue that trim_reply_queues could delete is held before that (see there).
-- If the row is as it should be, ON CONFLICT locks it and returns nothing: then it is looked up. The lookup locks it, too.
-- If there was no queue, there may be one a moment later, with a job that isn't locked yet, and that may be claimed: so its
-- round is marked as followed by another. And at REPEATABLE READ and above, a job that was finished since the snapshot may
-- be visible beside the one that this transaction has made of its id: to lock it is refused (40001).
-- Of equal payloads the lowest score and the latest expiry hold (R2), and never is the latest. One that has expired is as if it
-- were not there, whether or not a sweep has come: it lends nothing to an equal one, and as a push changes nothing.
-- (For how it looks up rows, see claim. Both kinds of sorts are off, so that only the primary key can give the ORDER BY
-- t.id of the lookup: the planner can't take jobs_due.)
CREATE OR REPLACE FUNCTION @schema@.enqueue(
  queue text,
  id text,
  payload jsonb DEFAULT '""',
  score double precision DEFAULT NULL,
  perform_in timestamptz DEFAULT NULL,
  lane integer DEFAULT NULL,
  headers jsonb DEFAULT NULL,
  tenant text DEFAULT NULL,
  expires_in timestamptz DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
@lookups@ SET enable_sort = off SET enable_incremental_sort = off
AS $$
#variable_conflict use_column
DECLARE
  _queue ALIAS FOR queue;
  _id ALIAS FOR id;
  _payload ALIAS FOR payload;
  _score ALIAS FOR score;
  _perform_in ALIAS FOR perform_in;
  _lane ALIAS FOR lane;
  _headers ALIAS FOR headers;
  _expires_in ALIAS FOR expires_in;
  _tenant constant pg_catalog.text := nullif(tenant, '');
  _new constant pg_catalog.int8 := nextval('@schema@.fences');
  _queue_id pg_catalog.int4;
  _shard pg_catalog.int4;
  _placed pg_catalog.int2;
  _fence pg_catalog.int8;
  _due pg_catalog.timestamptz;
  _has_payloads pg_catalog.bool;
  _tid pg_catalog.tid;
  _is_marked pg_catalog.bool;
  _is_covered pg_catalog.bool;
BEGIN
  -- A job that is plainly right needs no closer look.
  IF NOT coalesce(octet_length(_id) BETWEEN 1 AND 1024, false) OR NOT abs(_score) < 'Infinity' OR NOT _perform_in BETWEEN '0001-01-01' AND '9999-12-31' OR NOT _lane BETWEEN 0 AND 32767 OR _headers IS NOT NULL
  THEN
    IF _lane NOT BETWEEN 0 AND 32767 THEN
      RAISE EXCEPTION 'jobs[0].lane must be a whole number from 0 to 32767, not %', _lane USING ERRCODE = 'LK002';
    END IF;
    PERFORM @schema@.check_jobs(ARRAY[_id], ARRAY[_payload], ARRAY[_score], ARRAY[_perform_in], ARRAY[_lane::smallint], ARRAY[_headers]);
  END IF;
  IF _tenant IS NOT NULL THEN
    PERFORM @schema@.check_tenants(ARRAY[_tenant]);
  END IF;
  IF _expires_in IS NOT NULL THEN
    PERFORM @schema@.check_expiries(ARRAY[_expires_in], ARRAY[_perform_in]);
  END IF;
  -- See pushed_digest. A payload that comes compressed, from a table, shows nothing of its size.
  IF pg_column_size(_payload) > 1300 OR pg_column_compression(_payload) IS NOT NULL THEN
    PERFORM @schema@.checked_text(_payload, 0);
  END IF;

  INSERT INTO @schema@.jobs AS j (queue_id, shard, lane, perform_in, id, fence, has_payloads, score, payload, headers, tenant, expires_in)
  SELECT q.queue_id, @schema@.shard_of(_id, q.shards),
    CASE
      WHEN _tenant IS NULL OR _lane IS NOT NULL THEN coalesce(_lane, 0)
      WHEN q.fairness IS NULL THEN @schema@.tenant_lane(q.queue_id, _tenant)
      ELSE (@schema@.lanes_of(q.queue_id, q.fairness, ARRAY[_tenant], NULL))[1]
    END,
    coalesce(_perform_in, clock_timestamp()), _id, _new,
    NOT @schema@.carries(), coalesce(_score, extract(epoch FROM clock_timestamp())::double precision * 1000),
    CASE WHEN @schema@.carries() THEN coalesce(_payload, '""') END, CASE WHEN @schema@.carries() THEN _headers END, _tenant,
    CASE WHEN @schema@.carries() THEN _expires_in END
  FROM @schema@.queues q WHERE q.name = _queue AND (NOT @schema@.is_reply_queue(_queue) OR @schema@.hold_queue(q.queue_id))
  ON CONFLICT (queue_id, id) DO UPDATE SET
    next_perform_in = CASE WHEN j.claimed_by IS NOT NULL THEN coalesce(j.next_perform_in, excluded.perform_in) END, has_payloads = true
    WHERE (j.claimed_by IS NOT NULL AND j.next_perform_in IS NULL)
      OR NOT (j.has_payloads OR @schema@.covers(excluded.payload, excluded.score, excluded.expires_in, j.claimed_by, j.payload, j.score, j.expires_in))
  RETURNING j.queue_id, j.shard, j.lane, j.fence, j.perform_in, j.has_payloads INTO _queue_id, _shard, _placed, _fence, _due, _has_payloads;

  IF _fence = _new THEN
    -- The row alone decides: carries() may have become true meanwhile.
    IF _has_payloads THEN
      INSERT INTO @schema@.payloads (queue_id, fence, score, job_id, digest, payload, headers, expires_in)
      VALUES (
        _queue_id, _new, coalesce(_score, extract(epoch FROM clock_timestamp())::double precision * 1000),
        _id, @schema@.digest_of(coalesce(_payload, '""')), coalesce(_payload, '""'), _headers, _expires_in
      );
    END IF;
    IF @schema@.has_listener(_queue_id) THEN
      PERFORM @schema@.wake(_queue_id, ARRAY[@schema@.wake_token(_shard, _placed, _due)]);
    END IF;
    RETURN true;
  END IF;

  IF NOT FOUND THEN
    SELECT j.queue_id, j.fence, j.tid, j.is_marked, j.is_covered INTO _queue_id, _fence, _tid, _is_marked, _is_covered
    FROM @schema@.queues q CROSS JOIN LATERAL (
      SELECT t.queue_id, t.fence, t.ctid AS tid,
        t.has_payloads AND (t.claimed_by IS NULL OR t.next_perform_in IS NOT NULL) AS is_marked,
        @schema@.covers(
          coalesce(_payload, '""'), coalesce(_score, extract(epoch FROM clock_timestamp())::double precision * 1000), _expires_in,
          t.claimed_by, t.payload, t.score, t.expires_in
        ) AS is_covered
      FROM @schema@.jobs t
      WHERE t.queue_id = q.queue_id AND t.id >= _id COLLATE "C" AND t.id <= _id COLLATE "C"
      ORDER BY t.id FOR NO KEY UPDATE
    ) j
    WHERE q.name = _queue;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'queue "%" does not exist', left(_queue, 255)
        USING ERRCODE = 'LK001', HINT = 'Start a worker that defines it, or create it: SELECT @schema@.create_queue(name, shards).';
    END IF;
    IF _is_covered THEN
      RETURN false;
    END IF;
    IF NOT _is_marked THEN
      UPDATE @schema@.jobs j SET
        next_perform_in = CASE WHEN j.claimed_by IS NOT NULL THEN coalesce(j.next_perform_in, _perform_in, clock_timestamp()) END, has_payloads = true
      WHERE j.queue_id + 0 = _queue_id AND j.ctid = _tid;
    END IF;
  END IF;
  INSERT INTO @schema@.payloads AS p (queue_id, fence, score, job_id, digest, payload, headers, expires_in)
  VALUES (
    _queue_id, _fence, coalesce(_score, extract(epoch FROM clock_timestamp())::double precision * 1000),
    _id, @schema@.digest_of(coalesce(_payload, '""')), coalesce(_payload, '""'), _headers, _expires_in
  )
  ON CONFLICT (queue_id, job_id, fence, digest) DO UPDATE SET
    score = CASE WHEN p.expires_in <= statement_timestamp() THEN excluded.score ELSE least(p.score, excluded.score) END,
    seq = CASE WHEN p.expires_in <= statement_timestamp() OR excluded.score < p.score THEN excluded.seq ELSE p.seq END,
    headers = CASE WHEN p.expires_in <= statement_timestamp() THEN excluded.headers ELSE p.headers END,
    expires_in = CASE WHEN p.expires_in < coalesce(excluded.expires_in, 'infinity') THEN excluded.expires_in ELSE p.expires_in END
  WHERE p.expires_in < coalesce(excluded.expires_in, 'infinity')
    OR (excluded.score < p.score AND coalesce(excluded.expires_in > statement_timestamp(), true));
  RETURN false;
END
$$;
REVOKE ALL ON FUNCTION @schema@.enqueue(text, text, jsonb, double precision, timestamptz, integer, jsonb, text, timestamptz) FROM PUBLIC;

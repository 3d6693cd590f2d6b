-- Locks due jobs of queues with limits, for claim: as many of each lane as it asked for, and as the limits of its queue and of
-- the jobs' tenants allow (see free_places). It decides on one job after the other, in the order in which they are due, the
-- lanes in that of the call, and locks only those to be taken. A job over a limit is passed over, unclaimed. `_limited`: the
-- queues of the call that have limits, in ascending order.
--
-- Of a lane it reads no more than 250 jobs, or as many as were asked for, and 5,000 in one call, however many wait for a tenant
-- that has no place. So a claim can't get past more of them than that; the next one goes on behind. For a lane that limits kept
-- something waiting in, there is a row with `waits`, besides those of its jobs:
-- - `limits`: which kept something waiting: the tenant, null for the queue's own; until when, null if that depends on when
--   rounds end; when the first job was due that it kept waiting, and the place before that.
-- - `jobs`, if there are `_spots`: the jobs that were passed over, but those that the caller has told: the number of their limit in
--   `limits`, from 0, when they were due, and their ids.
-- - `full`: whether nothing of the lane can go before that.
-- - `to`, `toId`: the place in the lane up to which every job has been looked at; if it is full, now.
-- - `passed`: when the first job was due that was to be taken, but its row was locked.
-- - `gone`, `visited`: see below.
--
-- A claim never reads anew what it has passed: between the jobs that wait there lie those of others, done long ago, whose index
-- entries an old snapshot keeps. So the caller remembers which jobs have to wait, and tells them in `_spots`, by the number of the
-- lane in the call. They have their turn before what lies behind the lane's cursor:
-- - `known`: when such a job was due, its id, and its tenant. It is found by its key, once its tenant has room. `gone` are the
--   ids of those that do not wait as told: whatever has become of them, they are not to be tried again.
-- - `visits`: times of jobs that the lane has passed without knowing of them, and the least id there. Of those, `visited` are done.
-- - `upto`: what lies behind the cursor is read up to that time. For where a claim goes back behind jobs that were too many to remember: the
--   caller knows how much it has passed there. `headFrom` then says that the next job to come is none of those between, which would
--   have to be looked for among dead rows.
-- For a lane with `_spots`, there is always a row with `waits`. The order of time holds among all that is told; what is behind the cursor is later.
-- A job may be told twice, or lie behind the cursor as well. It is taken once.
--
-- The row of a job is locked only after the lock of its queue's limits was had. All that is checked here is checked again on
-- the newest version of the row, together with its tenant: in between, it may have been completed and pushed anew.
-- What is held is counted once for a queue and all its tenants (see count_holds).
--
-- (For how it looks up rows, see claim.) It runs with its owner's rights: nobody else needs to write to those tables.
DROP FUNCTION IF EXISTS @schema@.take_within_limits(
  integer, timestamptz, integer[], integer[], integer[], smallint[], integer[], bigint[], text[]
);
CREATE OR REPLACE FUNCTION @schema@.take_within_limits(
  _process_id integer, _now timestamptz, _limited integer[],
  _queue_ids integer[], _shards integer[], _lanes smallint[], _counts integer[], _after bigint[], _after_ids text[],
  _spots jsonb DEFAULT NULL
) RETURNS TABLE (
  place integer, tid tid, id text, perform_in timestamptz, retry_count integer, crashes integer, error text, rescued boolean,
  payload jsonb, headers jsonb, score double precision, others boolean, large boolean, tenant text, fence bigint, waits jsonb, expires_in timestamptz
)
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
@lookups@ SET enable_sort = off SET enable_incremental_sort = off
AS $$
DECLARE
  _left integer := 5000;
  -- Read when a lock is had: it may have been waited for, and what others noted meanwhile must not lie in the future.
  _at timestamptz;
  -- By the place of a queue in _limited; those of tenants follow.
  _names text[] := '{}';
  _free bigint[];
  _rated boolean[];
  _until timestamptz[];
  _limits jsonb[];
  -- By tenant.
  _held jsonb[];
  _all record;
  _ready boolean[];
  _due record;
  _row record;
  _room record;
  _queue integer;
  _tenant integer;
  -- The limit that a job is over.
  _over integer;
  _of text;
  _taken integer;
  _blocked integer[];
  _waiting jsonb[];
  _full boolean;
  _to bigint;
  _to_id text;
  _passed timestamptz;
  -- What the caller has told of the lane, and what came of it.
  _told jsonb;
  _upto timestamptz;
  _most integer;
  _read integer;
  _visits integer;
  _visited integer;
  _stopped boolean;
  _seen text[];
  _gone text[];
  -- Jobs that are passed over: the number of their limit, from 0.
  _jobs_of integer[];
  _jobs_at bigint[];
  _jobs text[];
BEGIN
  FOR _queue IN 1..cardinality(_limited) LOOP
    _ready[_queue] := @schema@.lock_limits(_limited[_queue]);
    _names[_queue] := '';
    IF _ready[_queue] THEN
      _at := clock_timestamp();
      _limits[_queue] := (SELECT q.limits FROM @schema@.queues q WHERE q.queue_id = _limited[_queue]);
      _all := @schema@.count_holds(_limited[_queue], _limits[_queue]);
      _held[_queue] := _all.of_tenants;
      _room := @schema@.free_places(_process_id, _limited[_queue], '', _limits[_queue], _all.held, _at);
      _free[_queue] := _room.free;
      _rated[_queue] := _room.rated;
    END IF;
  END LOOP;

  FOR _place IN 1..cardinality(_queue_ids) LOOP
    _queue := array_position(_limited, _queue_ids[_place]);
    CONTINUE WHEN _queue IS NULL;
    place := _place;
    _full := NOT _ready[_queue] OR _left <= 0;
    _taken := 0;
    _blocked := '{}';
    _waiting := '{}';
    _to := _after[_place];
    _to_id := _after_ids[_place];
    _passed := NULL;
    _of := NULL;
    _tenant := NULL;
    _told := _spots->_place::text;
    _upto := CASE WHEN _told ? 'upto' THEN @schema@.from_micros((_told->>'upto')::bigint) END;
    _most := least(greatest(250, _counts[_place]), _left);
    _read := 0;
    _visits := coalesce(jsonb_array_length(_told->'visits'), 0);
    _visited := 0;
    _stopped := false;
    _seen := '{}';
    _gone := '{}';
    _jobs_of := '{}';
    _jobs_at := '{}';
    _jobs := '{}';
    FOR _due IN
      -- `visit`: 0 for what is known; null behind the cursor.
      (SELECT s.id, s.perform_in, s.tenant, s.visit FROM (
        SELECT k.job->>1 AS id, @schema@.from_micros((k.job->>0)::bigint) AS perform_in, k.job->>2 AS tenant, 0 AS visit
        FROM jsonb_array_elements(_told->'known') AS k(job)
        UNION ALL
        SELECT j.id, j.perform_in, j.tenant, v.n::integer
        FROM jsonb_array_elements(_told->'visits') WITH ORDINALITY AS v(spot, n)
        CROSS JOIN LATERAL (
          SELECT j.id, j.perform_in, j.tenant FROM @schema@.jobs j
          WHERE j.queue_id = _queue_ids[_place] AND j.shard = _shards[_place] AND j.lane = _lanes[_place] AND j.perform_in <= _now
            AND (j.perform_in, j.id) >= (@schema@.from_micros((v.spot->>0)::bigint), (v.spot->>1) COLLATE "C")
            AND j.perform_in <= @schema@.from_micros((v.spot->>0)::bigint)
            AND CASE
              WHEN j.claimed_by IS NULL THEN true
              WHEN j.claimed_by = _process_id THEN false
              ELSE @schema@.is_gone(j.claimed_by)
            END
          ORDER BY j.perform_in, j.id LIMIT 250
        ) j
      ) s WHERE NOT _full ORDER BY s.perform_in, s.id COLLATE "C")
      UNION ALL
      (SELECT j.id, j.perform_in, j.tenant, NULL FROM @schema@.jobs j
      WHERE NOT _full AND j.queue_id = _queue_ids[_place] AND j.shard = _shards[_place] AND j.lane = _lanes[_place]
        AND j.perform_in <= least(_now, _upto) AND (j.perform_in, j.id) > (@schema@.from_micros(_after[_place]), _after_ids[_place])
        AND CASE
          WHEN j.claimed_by IS NULL THEN true
          WHEN j.claimed_by = _process_id THEN false
          ELSE @schema@.is_gone(j.claimed_by)
        END
      ORDER BY j.perform_in, j.id LIMIT _most)
    LOOP
      _visited := CASE WHEN _due.visit IS NULL THEN _visits ELSE greatest(_visited, _due.visit - 1) END;
      _stopped := _taken >= _counts[_place];
      EXIT WHEN _stopped;
      _read := _read + (_due.visit IS NULL)::integer;
      CONTINUE WHEN _due.id = ANY (_seen);
      _full := coalesce(_free[_queue] <= 0, false);
      _left := _left - 1;
      IF NOT _full AND _due.tenant IS DISTINCT FROM _of THEN
        _of := _due.tenant;
        _tenant := NULL;
        IF _of <> '' AND _limits[_queue] ? 'tenant' THEN
          _tenant := array_position(_names, _queue || ' ' || _of);
          IF _tenant IS NULL THEN
            _tenant := cardinality(_names) + 1;
            _names[_tenant] := _queue || ' ' || _of;
            _room := @schema@.free_places(
              _process_id, _limited[_queue], _of, _limits[_queue]->'tenant', (_held[_queue]->>_of)::bigint, _at
            );
            _free[_tenant] := _room.free;
            _rated[_tenant] := _room.rated;
          END IF;
        END IF;
      END IF;
      _over := CASE WHEN _full THEN _queue WHEN _free[_tenant] <= 0 THEN _tenant END;
      IF _over IS NOT NULL AND NOT _over = ANY (_blocked) THEN
        _blocked := _blocked || _over;
        IF _rated[_over] THEN
          _until[_over] := coalesce(_until[_over], @schema@.next_start(
            _limited[_queue], CASE WHEN _full THEN '' ELSE _of END,
            CASE WHEN _full THEN _limits[_queue]->'rate' ELSE _limits[_queue]->'tenant'->'rate' END, _at
          ));
        ELSE
          PERFORM @schema@.note_turn(
            _limited[_queue], CASE WHEN _full THEN '' ELSE _of END, _process_id, _shards[_place], _lanes[_place], _due.perform_in, _at
          );
        END IF;
        _waiting := _waiting || jsonb_build_object(
          'tenant', CASE WHEN NOT _full THEN _of END, 'until', @schema@.micros(_until[_over]),
          'from', @schema@.micros(_due.perform_in),
          'after', CASE WHEN _due.visit IS NULL THEN _to ELSE @schema@.micros(_due.perform_in) - 1 END,
          'afterId', CASE WHEN _due.visit IS NULL THEN _to_id ELSE '' END
        );
      END IF;
      _stopped := _full;
      EXIT WHEN _stopped;
      IF _due.visit IS NULL THEN
        _to := @schema@.micros(_due.perform_in);
        _to_id := _due.id;
      END IF;
      IF _over IS NOT NULL THEN
        IF _spots IS NOT NULL AND _due.visit IS DISTINCT FROM 0 THEN
          _jobs_of := _jobs_of || array_position(_blocked, _over) - 1;
          _jobs_at := _jobs_at || @schema@.micros(_due.perform_in);
          _jobs := _jobs || _due.id;
        END IF;
        CONTINUE;
      END IF;
      SELECT j.ctid, j.id, j.perform_in, j.retry_count, j.crashes, j.error, j.claimed_by, j.fence, j.has_payloads, j.payload,
        j.headers, j.score, j.tenant, j.expires_in,
        j.payload IS NULL OR pg_column_size(j.payload) <= 2100 AND pg_column_compression(j.payload) IS NULL
          AND (j.headers IS NULL OR pg_column_size(j.headers) <= 2100 AND pg_column_compression(j.headers) IS NULL) AS is_small
      INTO _row
      FROM @schema@.jobs j
      WHERE j.queue_id = _queue_ids[_place] AND j.id >= _due.id AND j.id <= _due.id
        AND j.shard = _shards[_place] AND j.lane = _lanes[_place] AND j.perform_in <= _now AND j.tenant IS NOT DISTINCT FROM _due.tenant
        AND CASE
          WHEN j.claimed_by IS NULL THEN true
          WHEN j.claimed_by = _process_id THEN false
          ELSE @schema@.is_gone(j.claimed_by)
        END
        AND (_due.visit IS NULL OR j.perform_in = _due.perform_in)
      ORDER BY j.id FOR UPDATE SKIP LOCKED;
      IF NOT FOUND THEN
        -- It is locked, or something has become of it. If that is committed only between these two statements, it is tried again.
        IF _due.visit = 0 AND (
          SELECT true FROM @schema@.jobs j
          WHERE j.queue_id = _queue_ids[_place] AND j.id >= _due.id AND j.id <= _due.id
            AND j.shard = _shards[_place] AND j.lane = _lanes[_place] AND j.perform_in = _due.perform_in
            AND j.tenant IS NOT DISTINCT FROM _due.tenant
            AND CASE
              WHEN j.claimed_by IS NULL THEN true
              WHEN j.claimed_by = _process_id THEN false
              ELSE @schema@.is_gone(j.claimed_by)
            END
          ORDER BY j.id LIMIT 1
        ) IS NULL THEN
          _gone := _gone || _due.id;
        ELSE
          _passed := least(_passed, _due.perform_in);
        END IF;
        CONTINUE;
      END IF;
      tid := _row.ctid;
      id := _row.id;
      perform_in := _row.perform_in;
      retry_count := _row.retry_count;
      crashes := _row.crashes;
      error := _row.error;
      rescued := _row.claimed_by IS NOT NULL;
      payload := CASE WHEN _row.is_small THEN _row.payload END;
      headers := CASE WHEN _row.is_small THEN _row.headers END;
      score := _row.score;
      others := _row.has_payloads;
      large := NOT _row.is_small;
      tenant := _row.tenant;
      fence := _row.fence;
      expires_in := _row.expires_in;
      RETURN NEXT;
      IF _told IS NOT NULL THEN
        _seen := _seen || _due.id;
      END IF;
      _taken := _taken + 1;
      _free[_queue] := _free[_queue] - 1;
      IF _tenant IS NOT NULL THEN
        _free[_tenant] := _free[_tenant] - 1;
      END IF;
    END LOOP;
    CONTINUE WHEN NOT _full AND cardinality(_blocked) = 0 AND _told IS NULL;
    tid := NULL;
    IF _upto IS NOT NULL AND NOT _stopped AND _read < _most THEN
      _to := @schema@.micros(_upto) + 1;
      _to_id := '';
    END IF;
    waits := jsonb_build_object(
      'full', _full, 'limits', to_jsonb(_waiting), 'passed', @schema@.micros(_passed),
      'to', CASE WHEN _full THEN @schema@.micros(_now) ELSE _to END, 'toId', CASE WHEN _full THEN '' ELSE _to_id END
    );
    IF _upto IS NOT NULL THEN
      waits := waits || jsonb_build_object('headFrom', @schema@.micros(_now));
    END IF;
    IF _spots IS NOT NULL THEN
      waits := waits || jsonb_build_object(
        'gone', _gone, 'visited', CASE WHEN _stopped OR _full THEN _visited ELSE _visits END,
        'jobs', (SELECT jsonb_agg(jsonb_build_array(w.of, w.at, w.id) ORDER BY w.n) FROM unnest(_jobs_of, _jobs_at, _jobs) WITH ORDINALITY AS w(of, at, id, n))
      );
    END IF;
    RETURN NEXT;
    waits := NULL;
  END LOOP;
END
$$;
REVOKE ALL ON FUNCTION @schema@.take_within_limits FROM PUBLIC;

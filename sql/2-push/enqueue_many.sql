-- Pushes jobs. NULL stands for a default, also for a whole array, and where an array is shorter than `_ids`. Returns how
-- many jobs were given.
-- Only new jobs can be due earlier than a worker knows, so only they wake one.
--
-- It runs with its owner's rights, so that a producer needs no rights on any table (see `lockstep roles`). Names, types
-- and operators come from pg_catalog, whatever the caller's search_path or temporary objects are, and only roles that
-- were granted it may call it. No function that it calls may declare a variable of a type without the type's schema:
-- such a function is compiled once per session, perhaps at an earlier call, under the caller's own search_path.
--
-- Both kinds of sorts are off, so that only the primary key can give the ORDER BY t.id of the lookup of new jobs: the
-- planner can't take jobs_due (see claim).
CREATE OR REPLACE FUNCTION @schema@.enqueue_many(
  _queue text,
  _ids text[],
  _payloads jsonb[] DEFAULT NULL,
  _scores double precision[] DEFAULT NULL,
  _perform_ins timestamptz[] DEFAULT NULL,
  _lanes smallint[] DEFAULT NULL,
  _headers jsonb[] DEFAULT NULL,
  _tenants text[] DEFAULT NULL,
  _expires_ins timestamptz[] DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
@lookups@ SET enable_sort = off SET enable_incremental_sort = off
AS $$
DECLARE
  _queue_id integer;
  _shards integer;
  _fairness jsonb;
  _fence bigint;
  _heads text[];
BEGIN
  -- See trim_reply_queues.
  SELECT q.queue_id, q.shards, q.fairness INTO _queue_id, _shards, _fairness FROM @schema@.queues q
  WHERE q.name = _queue AND (NOT @schema@.is_reply_queue(_queue) OR @schema@.hold_queue(q.queue_id));
  IF NOT FOUND THEN
    RAISE EXCEPTION 'queue "%" does not exist', left(_queue, 255)
      USING ERRCODE = 'LK001', HINT = 'Start a worker that defines it, or create it: SELECT @schema@.create_queue(name, shards).';
  END IF;
  PERFORM @schema@.check_jobs(_ids, _payloads, _scores, _perform_ins, _lanes, _headers);
  IF _tenants IS NOT NULL THEN
    IF cardinality(_tenants) > cardinality(_ids) THEN
      PERFORM @schema@.check_jobs(_ids || NULL::text, NULL, NULL, NULL, NULL, NULL);
    END IF;
    -- As long as the ids, and beginning at 1: arrays that come from SQL need not.
    SELECT array_agg(nullif(i.tenant, '') ORDER BY i.position), array_agg(i.lane ORDER BY i.position) INTO _tenants, _lanes
    FROM unnest(_ids, _tenants, _lanes) WITH ORDINALITY AS i(id, tenant, lane, position);
    PERFORM @schema@.check_tenants(_tenants);
    _lanes := @schema@.lanes_of(_queue_id, _fairness, _tenants, _lanes);
  END IF;
  IF _expires_ins IS NOT NULL THEN
    IF cardinality(_expires_ins) > cardinality(_ids) THEN
      PERFORM @schema@.check_jobs(_ids || NULL::text, NULL, NULL, NULL, NULL, NULL);
    END IF;
    -- An array that comes from SQL may start at another index than 1, or have more dimensions than one.
    _expires_ins := ARRAY(SELECT unnest(_expires_ins));
    PERFORM @schema@.check_expiries(_expires_ins, _perform_ins);
  END IF;
  _fence := @schema@.put_jobs(_queue_id, _shards, _ids, _payloads, _scores, _perform_ins, _lanes, _headers, _tenants, _expires_ins);
  IF @schema@.has_listener(_queue_id) THEN
    SELECT array_agg(@schema@.wake_token(h.shard, h.lane, h.perform_in)) INTO _heads
    FROM (
      SELECT j.shard, j.lane, min(j.perform_in) AS perform_in
      FROM unnest(_ids) AS i(id) CROSS JOIN LATERAL (
        SELECT t.shard, t.lane, t.perform_in FROM @schema@.jobs t
        WHERE t.queue_id = _queue_id AND t.id >= i.id COLLATE "C" AND t.id <= i.id COLLATE "C"
          AND t.fence = _fence
        ORDER BY t.id LIMIT 1
      ) j
      GROUP BY j.shard, j.lane
    ) h;
    IF cardinality(_heads) > 0 THEN
      PERFORM @schema@.wake(_queue_id, _heads);
    END IF;
  END IF;
  RETURN coalesce(cardinality(_ids), 0);
END
$$;
REVOKE ALL ON FUNCTION @schema@.enqueue_many FROM PUBLIC;

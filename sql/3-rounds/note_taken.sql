-- Notes what claim has just taken of queues with limits: `holds` of ids, where a number of them is limited, and `starts`, where
-- a rate is. A process that got a place is not among those that wait for one any more (see room_for).
-- It comes after the claim's UPDATE: so a start is noted no earlier than the row says that it was claimed, and the window of
-- a rate holds for `claimed_at`, too.
-- It runs with its owner's rights: nobody else needs to write to those tables.
CREATE OR REPLACE FUNCTION @schema@.note_taken(
  _process_id integer, _limited integer[], _fence bigint, _queue_ids integer[], _places integer[], _ids text[], _tenants text[]
) RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
@lookups@
AS $$
DECLARE
  _now constant timestamptz := clock_timestamp();
  _queue_id integer;
  _limits jsonb;
  _of_queue text[];
  _of_tenants text[];
BEGIN
  FOR _queue_id, _limits IN
    SELECT q.queue_id, q.limits FROM @schema@.queues q WHERE q.queue_id = ANY (_limited) AND q.limits IS NOT NULL
  LOOP
    SELECT array_agg(t.id), array_agg(coalesce(t.tenant, '')) INTO _of_queue, _of_tenants
    FROM unnest(_places, _ids, _tenants) AS t(place, id, tenant) WHERE _queue_ids[t.place] = _queue_id;
    CONTINUE WHEN _of_queue IS NULL;
    IF _limits ? 'concurrency' OR _limits->'tenant' ? 'concurrency' THEN
      INSERT INTO @schema@.holds (queue_id, process_id, fence, tenant, job_id)
      SELECT _queue_id, _process_id, _fence, t.tenant, t.id FROM unnest(_of_queue, _of_tenants) AS t(id, tenant);
      DELETE FROM @schema@.turns t
      WHERE t.queue_id = _queue_id AND t.process_id = _process_id AND t.tenant = ANY (array_append(_of_tenants, ''));
    END IF;
    INSERT INTO @schema@.starts AS s (queue_id, tenant, at, rounds)
    SELECT _queue_id, r.tenant, to_timestamp(ceil(extract(epoch FROM _now) * 100 / r.per) * r.per / 100) + interval '1 us', count(*)
    FROM (
      SELECT '' AS tenant, (_limits->'rate'->>'per')::numeric AS per FROM unnest(_of_queue)
      UNION ALL
      SELECT t.tenant, (_limits->'tenant'->'rate'->>'per')::numeric FROM unnest(_of_tenants) AS t(tenant) WHERE t.tenant <> ''
    ) r
    WHERE r.per IS NOT NULL GROUP BY r.tenant, r.per
    ON CONFLICT ON CONSTRAINT starts_pkey DO UPDATE SET rounds = s.rounds + excluded.rounds;
  END LOOP;
END
$$;
REVOKE ALL ON FUNCTION @schema@.note_taken FROM PUBLIC;

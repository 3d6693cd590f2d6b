-- Notes what claim has just taken of queues with limits: `holds` of ids, where a number of them is limited, and `starts`, where
-- a rate is. A process that got a place is not among those that wait for one any more (see leave_places).
-- It comes after the claim's UPDATE: so a start is noted no earlier than the row says that it was claimed, and the window of
-- a rate holds for `claimed_at`, too.
-- It runs with its owner's rights: nobody else needs to write to those tables.
CREATE OR REPLACE FUNCTION @schema@.note_taken(
  _process_id integer, _limited integer[], _fence bigint, _queue_ids integer[], _places integer[], _ids text[], _tenants text[]
) RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
@lookups@ SET enable_sort = off
AS $$
DECLARE
  _now constant timestamptz := clock_timestamp();
  _queue_id integer;
  _limits jsonb;
  _of_queue text[];
  _of_tenants text[];
  _next record;
BEGIN
  FOR _queue_id, _limits IN
    SELECT q.queue_id, q.limits FROM @schema@.queues q WHERE q.queue_id = ANY (_limited) AND q.limits IS NOT NULL
  LOOP
    SELECT array_agg(t.id), array_agg(coalesce(t.tenant, '')) INTO _of_queue, _of_tenants
    FROM unnest(_places, _ids, _tenants) AS t(place, id, tenant) WHERE _queue_ids[t.place] = _queue_id;
    CONTINUE WHEN _of_queue IS NULL;
    IF _limits ? 'concurrency' OR _limits->'tenant' ? 'concurrency' THEN
      _next := @schema@.next_hold(_queue_id);
      INSERT INTO @schema@.holds (queue_id, number, checkpoint, process_id, fence, tenant, job_id)
      SELECT _queue_id, _next.number + t.n - 1, _next.checkpoint, _process_id, _fence, t.tenant, t.id
      FROM unnest(_of_queue, _of_tenants) WITH ORDINALITY AS t(id, tenant, n);
      PERFORM @schema@.end_turns(_queue_id, array_append(_of_tenants, ''), _process_id, _now);
    END IF;
    IF _limits ? 'rate' OR _limits->'tenant' ? 'rate' THEN
      PERFORM @schema@.note_starts(_queue_id, _limits, _of_tenants, _now);
    END IF;
  END LOOP;
END
$$;
REVOKE ALL ON FUNCTION @schema@.note_taken FROM PUBLIC;

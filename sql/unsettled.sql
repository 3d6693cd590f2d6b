-- Why rounds could not be settled: `held` ones are still the process's own and wait for a producer's open
-- transaction, `lost` ones belong to somebody else by now or are gone.
CREATE OR REPLACE FUNCTION @schema@.unsettled(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _settled integer[]
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE sql AS $$
  SELECT r.queue_id, r.id, CASE WHEN j.id IS NULL THEN 'lost' ELSE 'held' END, j.shard, j.lane, NULL::bigint
  FROM unnest(_queue_ids, _ids, _fences) WITH ORDINALITY AS r(queue_id, id, fence, place)
  LEFT JOIN @schema@.jobs j
    ON j.queue_id = r.queue_id AND j.id = r.id AND j.fence = r.fence AND j.claimed_by = _process_id
  WHERE r.place <> ALL (coalesce(_settled, '{}'))
$$;

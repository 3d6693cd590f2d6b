-- Why rounds could not be settled: `held` ones are still the process's own and wait for a producer's open
-- transaction, `lost` ones belong to somebody else by now or are gone.
CREATE OR REPLACE FUNCTION @schema@.unsettled(
  _queue_id integer,
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _settled integer[]
) RETURNS TABLE (id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE sql AS $$
  SELECT r.id, CASE WHEN j.id IS NULL THEN 'lost' ELSE 'held' END, j.shard, j.lane, NULL::bigint
  FROM (SELECT _queue_id AS queue_id, t.* FROM unnest(_ids, _fences) WITH ORDINALITY AS t(id, fence, place) OFFSET 0) r
  LEFT JOIN @schema@.jobs j
    ON j.queue_id = r.queue_id AND j.id = r.id AND j.fence = r.fence AND j.claimed_by = _process_id
  WHERE r.place <> ALL (coalesce(_settled, '{}'))
$$;

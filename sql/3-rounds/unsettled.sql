-- Why rounds could not be settled: `held` ones are still the process's own and wait for a producer's open transaction;
-- `lost` ones belong to another process by now or are gone.
-- Both kinds of sorts are off, so that only the primary key can give the ORDER BY t.id of the lookup: the planner can't
-- take jobs_due (see claim). Settings for joins are not needed: a LATERAL subquery with a LIMIT leaves only a nested
-- loop.
CREATE OR REPLACE FUNCTION @schema@.unsettled(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _settled integer[]
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE sql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
AS $$
  SELECT r.queue_id, r.id, CASE WHEN j.id IS NULL THEN 'lost' ELSE 'held' END, j.shard, j.lane, NULL::bigint
  FROM unnest(_queue_ids, _ids, _fences) WITH ORDINALITY AS r(queue_id, id, fence, place)
  LEFT JOIN LATERAL (
    SELECT t.id, t.shard, t.lane FROM @schema@.jobs t
    WHERE t.queue_id = r.queue_id AND t.id >= r.id COLLATE "C" AND t.id <= r.id COLLATE "C"
      AND t.fence = r.fence AND t.claimed_by = _process_id
    ORDER BY t.id LIMIT 1
  ) j ON true
  WHERE r.place <> ALL (coalesce(_settled, '{}'))
$$;

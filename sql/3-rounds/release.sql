-- Releases rounds with their numbers unchanged (R15): they wait as before, with what was pushed meanwhile.
CREATE OR REPLACE FUNCTION @schema@.release(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _wait boolean
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
@lookups@
AS $$
DECLARE
  _places integer[];
  _tids tid[];
BEGIN
  SELECT array_agg(h.place), array_agg(h.tid) INTO _places, _tids
  FROM @schema@.lock_claims(_queue_ids, _process_id, _ids, _fences, _wait) h;
  RETURN QUERY
  UPDATE @schema@.jobs j SET next_perform_in = NULL, claimed_by = NULL, claimed_at = NULL
  FROM unnest(_places, _tids) AS r(place, tid)
  WHERE j.queue_id + 0 = _queue_ids[r.place] AND j.ctid = r.tid
  RETURNING j.queue_id, j.id, 'again', j.shard, j.lane, @schema@.micros(j.perform_in);
  IF cardinality(_places) IS DISTINCT FROM cardinality(_ids) THEN
    RETURN QUERY SELECT * FROM @schema@.unsettled(_queue_ids, _process_id, _ids, _fences, _places);
  END IF;
END
$$;

-- Ends rounds that failed (R4, R6, R7): all payloads of the id wait again, including those pushed meanwhile.
-- `_retry_ins` are seconds from now. NULL means that the retries are used up, and that the failed round's payload with
-- the lowest score dies. An equal payload that was pushed meanwhile lies at the fence itself and lives on.
-- `_kinds` says how rounds failed: 'failure' or 'timeout'. NULL, also for the whole array, means 'failure'.
-- A round without an error has not failed: it waits again with its number unchanged.
-- Returns jobs that wait `again`, and those that are `held` or `lost`. An id that is not among them is gone.
CREATE OR REPLACE FUNCTION @schema@.fail_claims(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _errors text[],
  _retry_ins double precision[],
  _kinds text[],
  _wait boolean
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
@lookups@
AS $$
DECLARE
  _places integer[];
  _tids tid[];
  _dying integer[];
BEGIN
  SELECT array_agg(h.place), array_agg(h.tid), array_agg(h.place) FILTER (WHERE _retry_ins[h.place] IS NULL)
  INTO _places, _tids, _dying
  FROM @schema@.lock_claims(_queue_ids, _process_id, _ids, _fences, _wait) h;

  RETURN QUERY
  UPDATE @schema@.jobs j SET
    retry_count = CASE WHEN _errors[r.place] IS NULL THEN j.retry_count ELSE j.retry_count + 1 END,
    perform_in = clock_timestamp() + make_interval(secs => _retry_ins[r.place]),
    attempts = CASE
      WHEN _errors[r.place] IS NULL THEN j.attempts
      ELSE @schema@.with_attempt(j.attempts, j.error, coalesce(_kinds[r.place], 'failure'), j.retry_count + 1)
    END,
    error = coalesce(_errors[r.place], j.error), next_perform_in = NULL, crashes = 0, claimed_by = NULL, claimed_at = NULL
  FROM unnest(_places, _tids) AS r(place, tid)
  WHERE j.queue_id + 0 = _queue_ids[r.place] AND j.ctid = r.tid AND _retry_ins[r.place] IS NOT NULL
  RETURNING j.queue_id, j.id, 'again', j.shard, j.lane, @schema@.micros(j.perform_in);

  IF _dying IS NOT NULL THEN
    RETURN QUERY SELECT * FROM @schema@.bury_failed(_queue_ids, _ids, _fences, _errors, _kinds, _dying);
  END IF;
  IF cardinality(_places) IS DISTINCT FROM cardinality(_ids) THEN
    RETURN QUERY SELECT * FROM @schema@.unsettled(_queue_ids, _process_id, _ids, _fences, _places);
  END IF;
END
$$;

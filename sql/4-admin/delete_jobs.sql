-- Deletes waiting jobs with their payloads, and of jobs in progress what waits behind the round (R11). Returns how many
-- jobs that were. Nothing then follows such a round, as its completion reads from the row. (For `_next` see
-- lock_waiting.)
--
-- The payloads are found by their ctids: no other session moves those of a job whose row is locked. (For OFFSET 0 see
-- claim.)
CREATE OR REPLACE FUNCTION @schema@.delete_jobs(_queue_id integer, _ids text[], _next boolean[] DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql
@lookups@
AS $$
DECLARE
  _held text[];
  _fences bigint[];
  _jobs text[];
  _rounds text[];
BEGIN
  SELECT array_agg(h.id), array_agg(h.fence),
    array_agg(h.id) FILTER (WHERE h.fence IS NULL), array_agg(h.id) FILTER (WHERE h.fence IS NOT NULL)
  INTO _held, _fences, _jobs, _rounds
  FROM @schema@.lock_waiting(_queue_id, _ids, _next) h;

  DELETE FROM @schema@.payloads p
  USING unnest(_held, _fences) AS h(id, fence) CROSS JOIN LATERAL (
    SELECT t.ctid AS tid FROM @schema@.payloads t
    WHERE t.queue_id = _queue_id AND t.job_id = h.id AND t.fence >= coalesce(h.fence, 0)
    OFFSET 0
  ) e
  WHERE p.queue_id + 0 = _queue_id AND p.ctid = e.tid;

  DELETE FROM @schema@.jobs j WHERE j.queue_id = _queue_id AND j.id = ANY (_jobs);
  UPDATE @schema@.jobs j SET next_perform_in = NULL WHERE j.queue_id = _queue_id AND j.id = ANY (_rounds);
  RETURN coalesce(cardinality(_held), 0);
END
$$;

-- Deletes waiting jobs with their payloads (R11) and returns how many.
CREATE OR REPLACE FUNCTION @schema@.delete_jobs(_queue_id integer, _ids text[]) RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
AS $$
DECLARE
  _held text[] := @schema@.hold_waiting(_queue_id, _ids);
BEGIN
  DELETE FROM @schema@.payloads p WHERE p.queue_id = _queue_id AND p.job_id = ANY (_held);
  DELETE FROM @schema@.jobs j WHERE j.queue_id = _queue_id AND j.id = ANY (_held);
  RETURN coalesce(cardinality(_held), 0);
END
$$;

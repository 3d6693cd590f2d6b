-- Makes waiting jobs due now, and of jobs in progress what waits behind the round (R11). Returns how many jobs that
-- were. Such a next round starts when the round in progress ends, and the end itself reports it to the worker: there is
-- no one to wake.
-- A job that a dead process left becomes an ordinary waiting one, with its crash counted: a look from a cursor sees
-- only rows that no process has claimed. (For `_next` see lock_waiting.)
-- It has fewer settings than other functions: its own statements look up rows by id = ANY (...) alone and join no
-- tables.
CREATE OR REPLACE FUNCTION @schema@.perform_now(_queue_id integer, _ids text[], _next boolean[] DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
AS $$
DECLARE
  _jobs text[];
  _rounds text[];
  _heads text[];
BEGIN
  SELECT array_agg(h.id) FILTER (WHERE h.fence IS NULL), array_agg(h.id) FILTER (WHERE h.fence IS NOT NULL)
  INTO _jobs, _rounds
  FROM @schema@.lock_waiting(_queue_id, _ids, _next) h;

  WITH due AS (
    UPDATE @schema@.jobs j SET
      perform_in = clock_timestamp(), next_perform_in = NULL,
      crashes = j.crashes + (j.claimed_by IS NOT NULL)::integer, claimed_by = NULL, claimed_at = NULL,
      attempts = CASE
        WHEN j.claimed_by IS NULL THEN j.attempts
        ELSE @schema@.with_attempt(j.attempts, j.error, 'crash', j.retry_count)
      END
    WHERE j.queue_id = _queue_id AND j.id = ANY (_jobs)
    RETURNING j.shard, j.lane, j.perform_in
  ), heads AS (
    SELECT d.shard, d.lane, min(d.perform_in) AS perform_in FROM due d GROUP BY d.shard, d.lane
  )
  SELECT array_agg(@schema@.wake_token(h.shard, h.lane, h.perform_in)) INTO _heads FROM heads h;
  UPDATE @schema@.jobs j SET next_perform_in = clock_timestamp()
  WHERE j.queue_id = _queue_id AND j.id = ANY (_rounds);
  IF _heads IS NOT NULL THEN
    PERFORM @schema@.wake(_queue_id, _heads);
  END IF;
  RETURN coalesce(cardinality(_jobs), 0) + coalesce(cardinality(_rounds), 0);
END
$$;

-- Makes waiting jobs due now (R11) and returns how many.
-- One that a dead process left becomes an ordinary waiting job, its crash counted: a look from a cursor sees
-- only rows that nobody has claimed.
CREATE OR REPLACE FUNCTION @schema@.perform_now(_queue_id integer, _ids text[]) RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
AS $$
DECLARE
  _held text[] := @schema@.hold_waiting(_queue_id, _ids);
  _heads text[];
BEGIN
  WITH due AS (
    UPDATE @schema@.jobs j SET
      perform_in = clock_timestamp(), next_perform_in = NULL,
      crashes = j.crashes + (j.claimed_by IS NOT NULL)::integer, claimed_by = NULL, claimed_at = NULL
    WHERE j.queue_id = _queue_id AND j.id = ANY (_held)
    RETURNING j.shard, j.lane, j.perform_in
  ), heads AS (
    SELECT d.shard, d.lane, min(d.perform_in) AS perform_in FROM due d GROUP BY d.shard, d.lane
  )
  SELECT array_agg(@schema@.head_of(h.shard, h.lane, h.perform_in)) INTO _heads FROM heads h;
  IF _heads IS NOT NULL THEN
    PERFORM @schema@.wake(_queue_id, _heads);
  END IF;
  RETURN coalesce(cardinality(_held), 0);
END
$$;

-- Locks those of the given jobs that are not in work, in id order like a push. What a person does to jobs
-- touches these alone. A producer's open transaction is waited for: nothing is passed over in silence.
CREATE OR REPLACE FUNCTION @schema@.hold_waiting(_queue_id integer, _ids text[]) RETURNS text[]
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
AS $$
BEGIN
  PERFORM @schema@.require_read_committed();
  RETURN (
    SELECT array_agg(w.id) FROM (
      SELECT j.id FROM @schema@.jobs j
      WHERE j.queue_id = _queue_id AND j.id = ANY (_ids)
        AND CASE WHEN j.claimed_by IS NULL THEN true ELSE @schema@.is_gone(j.claimed_by) END
      ORDER BY j.id FOR UPDATE
    ) w
  );
END
$$;

-- Locks the rows of rounds that a process still holds, and says which those are. The fence and the holder are
-- checked again on the newest version of each row: a lost claim can't complete, fail or delay anything.
-- Rows that a producer's open transaction has locked are left out, unless `_wait`: then the caller has set a
-- lock_timeout. Nobody can move a locked row: until the transaction ends, its ctid finds it.
-- OFFSET 0, here and elsewhere, hides from the planner that the queue of all rows is one and the same, so that nothing
-- but a probe of the index for each is left to it.
CREATE OR REPLACE FUNCTION @schema@.hold(
  _queue_id integer,
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _wait boolean
) RETURNS TABLE (place integer, tid tid, again boolean)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
  PERFORM @schema@.require_read_committed();
  IF _wait THEN
    RETURN QUERY
    SELECT r.place::integer, j.ctid, j.next_perform_in IS NOT NULL
    FROM (SELECT _queue_id AS queue_id, t.* FROM unnest(_ids, _fences) WITH ORDINALITY AS t(id, fence, place) OFFSET 0) r
    JOIN @schema@.jobs j ON j.queue_id = r.queue_id AND j.id = r.id AND j.fence = r.fence AND j.claimed_by = _process_id
    ORDER BY j.id FOR UPDATE OF j;
  ELSE
    RETURN QUERY
    SELECT r.place::integer, j.ctid, j.next_perform_in IS NOT NULL
    FROM (SELECT _queue_id AS queue_id, t.* FROM unnest(_ids, _fences) WITH ORDINALITY AS t(id, fence, place) OFFSET 0) r
    JOIN @schema@.jobs j ON j.queue_id = r.queue_id AND j.id = r.id AND j.fence = r.fence AND j.claimed_by = _process_id
    FOR UPDATE OF j SKIP LOCKED;
  END IF;
END
$$;

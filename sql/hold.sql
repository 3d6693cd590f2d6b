-- Locks the rows of rounds that a process still holds, and says which those are. The fence and the holder are
-- checked again on the newest version of each row: a lost claim can't complete, fail or delay anything.
-- Rows that a producer's open transaction has locked are left out, unless `_wait`: then the caller has set a
-- lock_timeout.
CREATE OR REPLACE FUNCTION @schema@.hold(
  _queue_id integer,
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _wait boolean
) RETURNS TABLE (row_id tid, place integer, again boolean)
LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
  PERFORM @schema@.require_read_committed();
  IF _wait THEN
    RETURN QUERY
    SELECT j.ctid, r.place::integer, j.next_perform_in IS NOT NULL
    FROM unnest(_ids, _fences) WITH ORDINALITY AS r(id, fence, place)
    JOIN @schema@.jobs j ON j.queue_id = _queue_id AND j.id = r.id AND j.fence = r.fence AND j.claimed_by = _process_id
    ORDER BY j.id FOR UPDATE OF j;
  ELSE
    RETURN QUERY
    SELECT j.ctid, r.place::integer, j.next_perform_in IS NOT NULL
    FROM unnest(_ids, _fences) WITH ORDINALITY AS r(id, fence, place)
    JOIN @schema@.jobs j ON j.queue_id = _queue_id AND j.id = r.id AND j.fence = r.fence AND j.claimed_by = _process_id
    FOR UPDATE OF j SKIP LOCKED;
  END IF;
END
$$;

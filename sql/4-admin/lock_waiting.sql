-- Locks what waits of the given ids, in id order like a push: jobs that no process has in progress, and the next rounds
-- of those in progress. What a person does touches only these. It waits for a producer's open transaction: nothing is
-- silently passed over.
--
-- `fence` is the one from which on payloads may be taken; NULL: all of the job. What was pushed since a round began
-- lies at its fence, and the round itself below it: in that job's row nothing but next_perform_in may change. A push
-- that comes later waits for the lock, and then finds what was done.
--
-- The statement looks at processes to leave alone what is in progress. Whether one is gone is checked again when the
-- row is locked (is_gone): the row may have been claimed meanwhile, by a process that the statement does not see.
--
-- `_next` says of each id which of the two its caller has seen, under locks it still has; NULL takes what there is. A
-- next round stays what it is if its process dies between the two: the payloads from its fence on.
CREATE OR REPLACE FUNCTION @schema@.lock_waiting(_queue_id integer, _ids text[], _next boolean[])
RETURNS TABLE (id text, fence bigint)
LANGUAGE plpgsql
@lookups@
AS $$
BEGIN
  PERFORM @schema@.require_read_committed();
  RETURN QUERY
  SELECT h.id, CASE WHEN NOT w.whole THEN h.fence END
  FROM (SELECT DISTINCT u.id COLLATE "C" AS id, u.next FROM unnest(_ids, _next) AS u(id, next) ORDER BY 1) r
  CROSS JOIN LATERAL (
    SELECT j.id, j.fence, j.claimed_by, j.next_perform_in FROM @schema@.jobs j
    WHERE j.queue_id = _queue_id AND j.id >= r.id AND j.id <= r.id
      AND (j.next_perform_in IS NOT NULL OR j.claimed_by IS DISTINCT FROM 0 AND NOT EXISTS (
        SELECT FROM @schema@.processes p WHERE p.process_id = j.claimed_by
      ))
    ORDER BY j.id FOR UPDATE
  ) h
  CROSS JOIN LATERAL (
    SELECT CASE WHEN h.claimed_by IS NULL THEN true WHEN r.next THEN false ELSE @schema@.is_gone(h.claimed_by) END AS whole
    OFFSET 0
  ) w
  WHERE CASE WHEN w.whole THEN r.next IS NOT TRUE ELSE r.next IS NOT FALSE AND h.next_perform_in IS NOT NULL END;
END
$$;

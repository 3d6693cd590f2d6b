-- Locks the rows of rounds that a process still holds, and says which those are. The fence and the process are checked
-- again on the newest version of each row: a lost claim can't complete, fail or delay anything.
-- Rows that a producer's open transaction has locked are left out, unless `_wait` is set: then the caller has set a
-- lock_timeout. A crash of the server must not forget how a round ended, whatever the default of synchronous_commit is,
-- or whatever the handler has set it to: the row would be claimed as before, by a process that lives and knows nothing
-- of it, until that process ends. No other session can move a locked row: until the transaction ends, its ctid finds
-- it.
-- (For how it looks up rows, see claim. Both kinds of sorts are off, so that only the primary key can give the ORDER BY
-- j.id of both lookups: the planner can't take jobs_due. With `_wait`, the rounds are sorted into the order of locking
-- all the same, since no index can give it.)
CREATE OR REPLACE FUNCTION @schema@.lock_claims(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _wait boolean
) RETURNS TABLE (place integer, tid tid, again boolean, has_payloads boolean)
LANGUAGE plpgsql
@lookups@ SET enable_sort = off SET enable_incremental_sort = off
AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM @schema@.require_read_committed();
  END IF;
  PERFORM set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true);
  IF _wait THEN
    RETURN QUERY
    SELECT r.place, h.tid, h.again, h.has_payloads
    FROM (
      SELECT u.queue_id, u.id COLLATE "C" AS id, u.fence, u.place::integer
      FROM unnest(_queue_ids, _ids, _fences) WITH ORDINALITY AS u(queue_id, id, fence, place)
      ORDER BY u.queue_id, u.id COLLATE "C"
    ) r
    CROSS JOIN LATERAL (
      SELECT j.ctid AS tid, j.next_perform_in IS NOT NULL AS again, j.has_payloads FROM @schema@.jobs j
      WHERE j.queue_id = r.queue_id AND j.id >= r.id AND j.id <= r.id
        AND j.fence = r.fence AND j.claimed_by = _process_id
      ORDER BY j.id FOR UPDATE
    ) h;
  ELSE
    RETURN QUERY
    SELECT r.place::integer, h.tid, h.again, h.has_payloads
    FROM unnest(_queue_ids, _ids, _fences) WITH ORDINALITY AS r(queue_id, id, fence, place)
    CROSS JOIN LATERAL (
      SELECT j.ctid AS tid, j.next_perform_in IS NOT NULL AS again, j.has_payloads FROM @schema@.jobs j
      WHERE j.queue_id = r.queue_id AND j.id >= r.id COLLATE "C" AND j.id <= r.id COLLATE "C"
        AND j.fence = r.fence AND j.claimed_by = _process_id
      ORDER BY j.id FOR UPDATE SKIP LOCKED
    ) h;
  END IF;
END
$$;

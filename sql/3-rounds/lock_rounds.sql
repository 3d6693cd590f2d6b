-- Locks the rows of rounds that a process still holds, and says which those are. The fence and the holder are
-- checked again on the newest version of each row: a lost claim can't complete, fail or delay anything.
-- Rows that a producer's open transaction has locked are left out, unless `_wait`: then the caller has set a
-- lock_timeout. A crash of the server must not forget how a round ended, whatever the default is, or the handler has set:
-- the row would be claimed again, by a process that lives and knows nothing of it, until that ends. Nobody can move a
-- locked row: until the transaction ends, its ctid finds it. (How it looks for rows: see claim.)
CREATE OR REPLACE FUNCTION @schema@.lock_rounds(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _wait boolean
) RETURNS TABLE (place integer, tid tid, again boolean)
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
    SELECT r.place, h.tid, h.again
    FROM (
      SELECT u.queue_id, u.id COLLATE "C" AS id, u.fence, u.place::integer
      FROM unnest(_queue_ids, _ids, _fences) WITH ORDINALITY AS u(queue_id, id, fence, place)
      ORDER BY u.queue_id, u.id COLLATE "C"
    ) r
    CROSS JOIN LATERAL (
      SELECT j.ctid AS tid, j.next_perform_in IS NOT NULL AS again FROM @schema@.jobs j
      WHERE j.queue_id = r.queue_id AND j.id >= r.id AND j.id <= r.id
        AND j.fence = r.fence AND j.claimed_by = _process_id
      ORDER BY j.id FOR UPDATE
    ) h;
  ELSE
    RETURN QUERY
    SELECT r.place::integer, h.tid, h.again
    FROM unnest(_queue_ids, _ids, _fences) WITH ORDINALITY AS r(queue_id, id, fence, place)
    CROSS JOIN LATERAL (
      SELECT j.ctid AS tid, j.next_perform_in IS NOT NULL AS again FROM @schema@.jobs j
      WHERE j.queue_id = r.queue_id AND j.id >= r.id COLLATE "C" AND j.id <= r.id COLLATE "C"
        AND j.fence = r.fence AND j.claimed_by = _process_id
      ORDER BY j.id FOR UPDATE SKIP LOCKED
    ) h;
  END IF;
END
$$;

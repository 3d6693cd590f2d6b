-- Waits for the first job of a lane, from a cursor on, that is due and that no live process has claimed, while other
-- transactions hold its row. A statement that skips never joins the queue for a row, so a job that is pushed without
-- pause would be skipped for ever. When this returns, the row is locked, and `claim`, called next in the same
-- transaction with the same cursor, finds it free: a transaction does not skip what it has locked itself. Everything
-- that makes a claim right stays claim's part: it checks its conditions on the newest version of the row, draws the
-- fence after the lock, and reads payloads after that.
--
-- The caller has set a lock_timeout below the server's deadlock_timeout, and has locked nothing before. One statement
-- chooses the job, and the next one locks it: if one did both, a row that no longer fits after the wait would stay
-- locked while the next one is waited for. A transaction that waits for one row and holds none can't be part of a
-- deadlock.
--
-- Sorts are off, so that only jobs_due can give the ORDER BY perform_in, id that chooses the job, and only the primary
-- key the ORDER BY id of its lookup (see claim).
CREATE OR REPLACE FUNCTION @schema@.wait_for(
  _process_id integer,
  _queue_id integer,
  _shard integer,
  _lane smallint,
  _after bigint,
  _after_id text
) RETURNS void
LANGUAGE plpgsql
@lookups@ SET enable_sort = off
AS $$
DECLARE
  _now constant timestamptz := clock_timestamp();
  _id text;
BEGIN
  PERFORM @schema@.require_read_committed();
  SELECT j.id INTO _id FROM @schema@.jobs j
  WHERE j.queue_id = _queue_id AND j.shard = _shard AND j.lane = _lane
    AND j.perform_in <= _now AND (j.perform_in, j.id) > (@schema@.from_micros(_after), _after_id)
    AND CASE
      WHEN j.claimed_by IS NULL THEN true
      WHEN j.claimed_by = _process_id OR j.claimed_by = 0 THEN false
      ELSE NOT EXISTS (
        SELECT FROM @schema@.processes p WHERE p.process_id = j.claimed_by
      )
    END
  ORDER BY j.perform_in, j.id LIMIT 1;
  PERFORM FROM @schema@.jobs j
  WHERE j.queue_id = _queue_id AND j.id >= _id COLLATE "C" AND j.id <= _id COLLATE "C"
  ORDER BY j.id FOR UPDATE;
END
$$;

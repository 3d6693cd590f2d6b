-- Takes the lock under which the limits of a queue are counted, until the caller's transaction ends; false: it could not be
-- had in time. Only who holds it claims jobs of such a queue and writes to holds, starts and turns. It is let go after the
-- commit is seen by others. So the next statement of whoever gets it next counts all that was claimed before: two claims
-- never take the last place both. (It has to be a later statement: the one that waits has an older snapshot.)
--
-- Who holds it waits for no row: claims skip rows that are locked, and no one else writes to those three tables. Nor does it
-- wait for the table of queues, which it has read before. Of several queues, the one with the lowest number is locked first.
-- So whoever waits here, with rows of completions, or the row that wait_for has waited for, waits for a COMMIT, and is in no
-- deadlock. But that COMMIT may not come if a process freezes behind a pooler, or an administrator's session has the lock.
-- So the wait is short, and the outcomes that go with the claim are stored nonetheless.
CREATE OR REPLACE FUNCTION @schema@.lock_limits(_queue_id integer) RETURNS boolean
LANGUAGE plpgsql
SET lock_timeout = '100ms'
AS $$
BEGIN
  IF pg_try_advisory_xact_lock('@schema@.holds'::regclass::oid::integer, _queue_id) THEN
    RETURN true;
  END IF;
  BEGIN
    PERFORM pg_advisory_xact_lock('@schema@.holds'::regclass::oid::integer, _queue_id);
    RETURN true;
  EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN false;
  END;
END
$$;

-- Whether the process that claimed a row is gone: its row has been removed, by itself or by others (see remove_silent).
-- From then on its claims are free. No clock of the server decides that, because such a clock may be set.
-- Process 0 has no row and is never gone: it has the claims of consumers, whose leases end one by one (see end_leases).
--
-- A number is never given out again, and a process is registered before it claims. So "gone" is final, if the question
-- is about a claim that is in the row. Therefore each call sees what was committed before it (VOLATILE), instead of
-- using the snapshot of the statement that calls it. That statement may have waited for the row, and find it claimed by
-- a process that has registered since: in the statement's snapshot, no process has this number.
CREATE OR REPLACE FUNCTION @schema@.is_gone(_process_id integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF _process_id = 0 THEN
    RETURN false;
  END IF;
  PERFORM FROM @schema@.processes p WHERE p.process_id = _process_id;
  RETURN NOT FOUND;
END
$$;

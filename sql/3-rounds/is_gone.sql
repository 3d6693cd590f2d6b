-- Whether the process that claimed a row is gone: its row has been removed, by itself or by others (see remove_silent).
-- From then on its claims are free. No clock of the server's decides that: such a clock may be set.
--
-- A number is never given out again, and a process is registered before it claims. So "gone" is final, if it is asked of a
-- claim that stands there: therefore each call sees what was committed before it (VOLATILE), instead of looking with the
-- eyes of the statement that calls it. That may have waited for the row, and find it claimed by a process that has been
-- registered since: by its snapshot there is none of this number.
CREATE OR REPLACE FUNCTION @schema@.is_gone(_process_id integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM FROM @schema@.processes p WHERE p.process_id = _process_id;
  RETURN NOT FOUND;
END
$$;

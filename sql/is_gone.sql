-- Whether the process that claimed a row is dead, and if so makes its death final.
--
-- Reading expires_at is not enough: a renewal may be under way, and then both would go on. Whoever takes a
-- claim over removes the process in the same transaction; a renewal locks the same row, so one of the two
-- comes first and the other sees it. A row that is locked is being renewed or removed right now: not gone yet.
CREATE OR REPLACE FUNCTION @schema@.is_gone(_process_id integer) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM @schema@.processes p WHERE p.process_id = _process_id;
  IF NOT FOUND THEN
    RETURN true;
  END IF;
  PERFORM FROM @schema@.processes p
  WHERE p.process_id = _process_id AND p.expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM @schema@.processes p WHERE p.process_id = _process_id;
  RETURN true;
END
$$;

-- Gives a queue limits (see free_places); NULL: none. Returns whether it had others. Claims that begin from now on go by them. If
-- it had none on how many ids are held at once, what is held already is noted here: all jobs of the queue are read for that.
-- (A claim that is under way meanwhile is counted by note_held, once this is committed.)
-- It runs with its owner's rights, for the workers' role.
CREATE OR REPLACE FUNCTION @schema@.set_limits(_queue_id integer, _limits jsonb) RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _former jsonb;
BEGIN
  PERFORM @schema@.check_limits(_limits);
  SELECT q.limits INTO _former FROM @schema@.queues q
  WHERE q.queue_id = _queue_id AND q.limits IS DISTINCT FROM _limits FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE @schema@.queues q SET limits = _limits WHERE q.queue_id = _queue_id;
  IF (_limits ? 'concurrency' OR _limits->'tenant' ? 'concurrency')
    AND (_former ? 'concurrency' OR _former->'tenant' ? 'concurrency') IS NOT TRUE
  THEN
    PERFORM pg_advisory_xact_lock('@schema@.holds'::regclass::oid::integer, _queue_id);
    DELETE FROM @schema@.holds h WHERE h.queue_id = _queue_id;
    PERFORM @schema@.note_held(_queue_id);
  END IF;
  RETURN true;
END
$$;
REVOKE ALL ON FUNCTION @schema@.set_limits FROM PUBLIC;

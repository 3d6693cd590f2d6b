-- Tells waiting workers of work, at the caller's commit.
--
-- A NOTIFY makes commits queue up behind each other, so a push sends one only while a worker waits. A waiting
-- process holds this advisory lock shared; if the exclusive lock can be had, nobody waits. It is given back in
-- the same expression: nothing can interrupt the session between the two, and no producer holds it long enough
-- to make a worker wait. A producer that finds another one testing sends a wake-up too many: harmless.
-- A full notification queue would make the caller's COMMIT fail: then polling has to do.
CREATE OR REPLACE FUNCTION @schema@.wake(_queue_id integer, _heads text[], _always boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  _class constant integer := '@schema@.queues'::regclass::oid::integer;
  _message pg_catalog.text := _queue_id || ' ' || array_to_string(_heads, ' ');
BEGIN
  IF NOT _always AND (CASE WHEN pg_try_advisory_lock(_class, _queue_id) THEN pg_advisory_unlock(_class, _queue_id) ELSE false END) THEN
    RETURN;
  END IF;
  IF pg_notification_queue_usage() < 0.5 THEN
    PERFORM pg_notify(@channel@, CASE WHEN octet_length(_message) < 7900 THEN _message ELSE _queue_id::text END);
  END IF;
END
$$;

-- Tells waiting workers of work when the caller commits.
--
-- A NOTIFY makes commits queue up behind each other, so a push sends one only while a worker waits (has_listener). A
-- full notification queue would make the caller's COMMIT fail, so none is sent once the queue is half full: then
-- polling has to do. A transaction that has notified can't be prepared (two-phase commit): SET LOCAL lockstep.wake =
-- off leaves the jobs to the workers' next look.
CREATE OR REPLACE FUNCTION @schema@.wake(_queue_id integer, _heads text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  _message constant pg_catalog.text := _queue_id || ' ' || array_to_string(_heads, ' ');
BEGIN
  IF lower(current_setting('lockstep.wake', true)) IN ('off', 'false', 'no', '0') THEN
    RETURN;
  END IF;
  IF pg_notification_queue_usage() < 0.5 THEN
    PERFORM pg_notify(@channel@, CASE WHEN octet_length(_message) < 7900 THEN _message ELSE _queue_id::text END);
  END IF;
END
$$;

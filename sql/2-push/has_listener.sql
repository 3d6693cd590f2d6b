-- Whether a worker waits to hear of work in a queue.
--
-- A waiting process holds this advisory lock shared. If the exclusive lock can be had, no process waits. It is released
-- in the same expression: nothing can interrupt the session between the two, and no producer holds it long enough to
-- make a worker wait. A producer that finds another producer testing sends a wake-up too many, which is harmless.
CREATE OR REPLACE FUNCTION @schema@.has_listener(_queue_id integer) RETURNS boolean
LANGUAGE sql
RETURN NOT CASE
  WHEN pg_try_advisory_lock('@schema@.queues'::regclass::oid::integer, _queue_id)
    THEN pg_advisory_unlock('@schema@.queues'::regclass::oid::integer, _queue_id)
  ELSE false
END;

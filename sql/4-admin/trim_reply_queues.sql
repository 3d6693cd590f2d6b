-- Deletes queues of lmstfy's API that are named by the id of a job, hold nothing and are not in use, _most at once, and returns how
-- many. A worker answers a synchronous task by publishing to the queue that has the id of the task for a name. So each task leaves
-- a queue behind. Whoever uses one again creates it again.
--
-- Nobody may push into a queue while its row goes: each push reads the row, and so has a lock on the table until its transaction
-- ends. This one waits for all of these, and others wait behind it. So it looks first, waits for a moment only, and looks again
-- once it has the lock. If it doesn't get it, the next call comes.
-- Consumers are told, since one that has taken from such a queue knows its number for a while: who began to wait there for the next
-- reply would wait under the old number. Without the message, as where the notification queue is half full, they see it within ten
-- seconds.
-- A queue that is not ten minutes old stays: a push whose transaction made it on another connection may be about to come.
--
-- It runs with its owner's rights, for the roles of workers and gateways: they can't delete any other queue.
CREATE OR REPLACE FUNCTION @schema@.trim_reply_queues(_most integer DEFAULT 500) RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '150ms'
AS $$
DECLARE
  _old pg_catalog.int4[];
BEGIN
  PERFORM @schema@.require_read_committed();
  _old := @schema@.unused_reply_queues(NULL, _most);
  IF cardinality(_old) = 0 THEN
    RETURN 0;
  END IF;
  LOCK TABLE @schema@.queues IN ACCESS EXCLUSIVE MODE;
  _old := @schema@.unused_reply_queues(_old, _most);
  DELETE FROM @schema@.queues q WHERE q.queue_id = ANY (_old);
  DELETE FROM @schema@.counters c WHERE c.queue_id = ANY (_old);
  DELETE FROM @schema@.minute_counters c WHERE c.queue_id = ANY (_old);
  PERFORM @schema@.forget_queues(_old, 1000);
  IF cardinality(_old) > 0 AND pg_notification_queue_usage() < 0.5 THEN
    PERFORM pg_notify(@channel@, 'rebalance');
  END IF;
  RETURN cardinality(_old);
EXCEPTION
  WHEN lock_not_available THEN
    RETURN 0;
END
$$;
REVOKE ALL ON FUNCTION @schema@.trim_reply_queues FROM PUBLIC;

-- Deletes queues of lmstfy's API that are named by the id of a job, hold nothing and are not in use, _most at once, and returns how
-- many. A worker answers a synchronous task by publishing to the queue that has the id of the task for a name. So each task leaves
-- a queue behind. Whoever uses one again creates it again.
--
-- Nobody may push into a queue while its row goes. So a push into a queue of such a name holds the row until its transaction ends
-- (hold_queue), and others don't. This one looks first, then locks the rows that nobody holds, and looks again: what was pushed
-- before is committed by now, and keeps the queue. A push that comes later waits for a moment, finds that there is no such queue, and
-- its caller makes it again. Pushes into other queues wait for nothing, and a transaction that stays open, and has pushed elsewhere,
-- keeps no queue. (To lock the table would make all pushes wait, and would never succeed where some transaction is always open.)
-- Only rows of counts may be waited for, for a moment. If that isn't enough, the next call comes.
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
  _old := ARRAY(SELECT q.queue_id FROM @schema@.queues q WHERE q.queue_id = ANY (_old) FOR UPDATE SKIP LOCKED);
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

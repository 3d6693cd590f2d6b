-- Keeps a queue from being trimmed until this transaction ends. False if it's gone. Any number of pushes hold one at once.
-- If it's being trimmed, this waits until that is decided: the caller has found it in its own snapshot, and this statement has a
-- newer one. At REPEATABLE READ and above, a queue that has gone since the snapshot is refused (40001).
CREATE OR REPLACE FUNCTION @schema@.hold_queue(_queue_id integer) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM @schema@.queues q WHERE q.queue_id = _queue_id FOR KEY SHARE;
  RETURN FOUND;
END
$$;

-- The number that the next hold of a queue has, and the checkpoint that goes with it (see count_holds). The first one's number is
-- the time in microseconds: so it lies behind those that an earlier limit has left. The caller has the lock of the queue's limits.
CREATE OR REPLACE FUNCTION @schema@.next_hold(_queue_id integer, OUT number bigint, OUT checkpoint bigint)
LANGUAGE plpgsql
@lookups@ SET enable_sort = off
AS $$
BEGIN
  SELECT h.number + 1, h.checkpoint INTO number, checkpoint
  FROM @schema@.holds h WHERE h.queue_id = _queue_id ORDER BY h.number DESC LIMIT 1;
  IF NOT FOUND THEN
    number := @schema@.micros(clock_timestamp());
    checkpoint := number;
  END IF;
END
$$;
REVOKE ALL ON FUNCTION @schema@.next_hold FROM PUBLIC;

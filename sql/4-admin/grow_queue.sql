-- Gives a queue so many shards where it has fewer, and returns whether it had. Nothing moves. Of what waits, each row stays
-- where it is and is served there; and so it is with what a producer commits later that has read the lower number: the
-- shard it chose is one of those that stay.
--
-- One statement, whose condition is looked at again on the newest version of the row where somebody else has changed it
-- meanwhile. So of workers that start side by side with several definitions, the largest number is left, in whatever order
-- they come, and a reshard comes before or after as a whole. Who dies in it has done nothing.
--
-- By the queue's id: a row that was deleted and made again since it was read is left alone.
-- It runs with its owner's rights for those who were granted it, as create_queue does: they may grow a queue, not shrink
-- it.
CREATE OR REPLACE FUNCTION @schema@.grow_queue(_queue_id integer, _shards integer) RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM @schema@.require_read_committed();
  UPDATE @schema@.queues q SET shards = _shards WHERE q.queue_id = _queue_id AND q.shards < _shards;
  RETURN FOUND;
END
$$;
REVOKE ALL ON FUNCTION @schema@.grow_queue FROM PUBLIC;

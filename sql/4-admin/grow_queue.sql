-- Gives a queue this many shards if it has fewer, and returns whether it had. Nothing moves. Each waiting row stays
-- where it is and is served there. The same holds for what a producer that has read the lower number commits later: the
-- shard it chose is one of those that stay.
--
-- This is one statement, whose condition is checked again on the newest version of the row if another session has
-- changed it meanwhile. So if workers with several definitions start side by side, the largest number is left, in
-- whatever order they come, and a reshard comes before or after as a whole. A process that dies in it has done nothing.
--
-- It goes by the queue's id: a row that was deleted and made again since it was read is left alone.
-- It runs with its owner's rights, for the roles that were granted it, as create_queue does: they may grow a queue, but
-- not shrink it.
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

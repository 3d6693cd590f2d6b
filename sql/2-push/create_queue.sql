-- Creates a queue if it is missing, and returns its id. An existing queue keeps its number of shards.
-- It looks for the queue first: ON CONFLICT would use up an identity value at every start of every process.
-- It runs with its owner's rights, for the roles that were granted it, as enqueue_many does.
CREATE OR REPLACE FUNCTION @schema@.create_queue(_name text, _shards integer DEFAULT 16) RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _queue_id integer;
BEGIN
  LOOP
    SELECT q.queue_id INTO _queue_id FROM @schema@.queues q WHERE q.name = _name;
    IF FOUND THEN
      RETURN _queue_id;
    END IF;
    INSERT INTO @schema@.queues AS q (name, shards) VALUES (_name, _shards)
    ON CONFLICT (name) DO NOTHING RETURNING q.queue_id INTO _queue_id;
    IF FOUND THEN
      RETURN _queue_id;
    END IF;
  END LOOP;
END
$$;
REVOKE ALL ON FUNCTION @schema@.create_queue FROM PUBLIC;

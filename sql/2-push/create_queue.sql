-- Creates a queue if it is missing, and returns its id. An existing queue keeps its number of shards.
-- It looks for the queue first: ON CONFLICT would use up an identity value at every start of every process.
-- What it refuses, it refuses by name: the table's constraints would name themselves alone.
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
    IF (octet_length(_name) BETWEEN 1 AND 511) IS NOT TRUE THEN
      RAISE EXCEPTION 'the name of a queue must be text of 1 to 511 bytes, not %', coalesce(octet_length(_name)::text, 'NULL')
        USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF (_shards BETWEEN 1 AND 16384) IS NOT TRUE THEN
      RAISE EXCEPTION 'shards must be a whole number from 1 to 16384, not %', coalesce(_shards::text, 'NULL')
        USING ERRCODE = 'invalid_parameter_value';
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

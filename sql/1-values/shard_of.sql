-- The shard of an id: the same for the same number of shards, evenly spread. Only new rows are placed by it,
-- so a queue that grows moves nothing.
CREATE OR REPLACE FUNCTION @schema@.shard_of(_id text, _shards integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (abs(hashtextextended(_id COLLATE "C", 0) % _shards))::integer;

-- The shard of an id: always the same for the same number of shards, and evenly spread. It places new rows, and those
-- that rehome moves out of removed shards. So a queue that grows moves nothing.
CREATE OR REPLACE FUNCTION @schema@.shard_of(_id text, _shards integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (abs(hashtextextended(_id COLLATE "C", 0) % _shards))::integer;

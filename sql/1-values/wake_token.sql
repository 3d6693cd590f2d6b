-- The earliest due time of a lane, in the form that a wake-up carries: shard:lane:microseconds since 1970.
CREATE OR REPLACE FUNCTION @schema@.wake_token(_shard integer, _lane smallint, _perform_in timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN _shard || ':' || _lane || ':' || @schema@.micros(_perform_in);

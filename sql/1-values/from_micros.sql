-- The inverse of micros(). NULL means the beginning of time.
CREATE OR REPLACE FUNCTION @schema@.from_micros(_micros bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce('1970-01-01 00:00:00+00'::timestamptz + _micros * interval '1 microsecond', '-infinity');

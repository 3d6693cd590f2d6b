-- Microseconds since 1970. Times cross the wire as whole numbers, so that a cursor comes back exact to the microsecond. A
-- JavaScript number holds those of 1684 to 2255 exactly; others are rounded down to the second (see wholeNumber).
CREATE OR REPLACE FUNCTION @schema@.micros(_at timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (extract(epoch FROM _at) * 1000000)::bigint;

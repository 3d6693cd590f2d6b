-- The number of the advisory lock that keeps the leases of a claim from being extended and ended at once. Claims whose fences
-- are 2^31 apart share one, which does no harm.
CREATE OR REPLACE FUNCTION @schema@.lock_of_fence(_fence bigint) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (_fence % 2147483648)::integer;

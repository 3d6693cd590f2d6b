-- The lane of a tenant in a queue without rules: one of those from -1 to -32, which only tenants have, so that schedulers can
-- give them turns. It's the same for all of its jobs until it is taken back (see trim_tenants), when it may get another, or until
-- another tenant's jobs have waited there for five seconds: then it gets another if that is better. One whose own jobs fill
-- the lane stays, or it would have the share of many.
--
-- A tenant that has none gets one that no other has, and in which nobody's jobs wait: some may be left from before it was given
-- back. If there is none, it gets, of four, the one in which jobs have waited least, and of those where they have waited about as
-- long, the one that fewest tenants have. So it doesn't share with a tenant that has piled up a lot, unless four lanes have one.
--
-- How long jobs have waited is what those who claim them have told in the last ten seconds (see note_tenant_waits). To look for the
-- oldest job itself, this would pass the entries of all that have been completed there since some old snapshot. Where nobody
-- tells of waits, it is the number of tenants that decides.
--
-- Nothing is locked, and no one waits. So two transactions that push the first jobs of a tenant at once may give it one lane
-- each; once both are committed, the higher number counts. Which lane it is depends on the tenant's name and on what is committed:
-- so of many at once, nearly all choose the same, and no tenant takes all lanes. Two tenants that come at the same moment
-- meet in one now and then.
-- Lanes are read from their newest row back, and no further than to the one without a tenant: those before it are gone, but lie
-- there as long as an old snapshot is held (see trim_tenant_lanes).
-- For push functions, whose settings make the lookups probes.
CREATE OR REPLACE FUNCTION @schema@.tenant_lane(_queue_id integer, _tenant text) RETURNS smallint
LANGUAGE plpgsql AS $$
DECLARE
  _now constant pg_catalog.timestamptz := clock_timestamp();
  _lane pg_catalog.int2;
  _stays pg_catalog.bool;
BEGIN
  -- Each push of a tenant comes here: give_tenant_lanes would find the same, but takes longer.
  SELECT t.lane, w.seconds < 5 OR w.tenant IN ('', hashtext(_tenant COLLATE "C")::text) INTO _lane, _stays
  FROM @schema@.tenant_lanes t LEFT JOIN LATERAL (
    SELECT n.waits[-t.lane] AS seconds, n.tenants[-t.lane] AS tenant FROM @schema@.tenant_waits n
    WHERE n.queue_id = _queue_id AND n.told_at BETWEEN _now - interval '10 s' AND _now ORDER BY 1 DESC LIMIT 1
  ) w ON true
  WHERE t.queue_id = _queue_id AND t.tenant = _tenant COLLATE "C" ORDER BY t.number DESC LIMIT 1;
  IF FOUND AND _stays IS NOT FALSE THEN
    RETURN _lane;
  END IF;
  RETURN (@schema@.give_tenant_lanes(_queue_id, ARRAY[_tenant]))[1];
END
$$;

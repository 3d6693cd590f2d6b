-- How many seconds jobs have waited in a tenants' lane, as those who claim there have told in the last ten seconds, and which
-- tenant's jobs fill it; 1 if it holds none that is late by more, 0 if nobody has told anything (see note_tenant_waits). To look for
-- the oldest job itself, this would pass the entries of all that have been completed there since some old snapshot.
-- For push functions, whose settings make the lookup a probe.
CREATE OR REPLACE FUNCTION @schema@.tenant_wait(_queue_id integer, _lane smallint, OUT seconds integer, OUT tenant text)
LANGUAGE plpgsql AS $$
DECLARE
  -- So that the index finds what was told: what is volatile is compared with each row.
  _now constant pg_catalog.timestamptz := clock_timestamp();
BEGIN
  SELECT greatest(0, w.waits[-_lane]), w.tenants[-_lane] INTO seconds, tenant FROM @schema@.tenant_waits w
  WHERE w.queue_id = _queue_id AND w.told_at BETWEEN _now - interval '10 s' AND _now
  ORDER BY w.waits[-_lane] DESC LIMIT 1;
  seconds := coalesce(seconds, 0);
END
$$;
REVOKE ALL ON FUNCTION @schema@.tenant_wait FROM PUBLIC;

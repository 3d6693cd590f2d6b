-- How many tenants have a lane; no more than 20 are counted. One at a time from the newest back, as what lies behind the row
-- without a tenant must not be read (see tenant_lane). For push functions, whose settings make each step a probe.
CREATE OR REPLACE FUNCTION @schema@.tenants_in(_queue_id integer, _lane smallint) RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    WITH RECURSIVE newest (nth, number, tenant) AS (
      (
        SELECT 1, t.number, t.tenant FROM @schema@.tenant_lanes t
        WHERE t.queue_id = _queue_id AND t.lane = _lane ORDER BY t.number DESC LIMIT 1
      )
      UNION ALL
      SELECT n.nth + 1, e.number, e.tenant FROM newest n CROSS JOIN LATERAL (
        SELECT t.number, t.tenant FROM @schema@.tenant_lanes t
        WHERE t.queue_id = _queue_id AND t.lane = _lane AND t.number < n.number ORDER BY t.number DESC LIMIT 1
      ) e
      WHERE n.nth < 20 AND n.tenant <> ''
    )
    SELECT count(*) FROM newest n WHERE n.tenant <> ''
  );
END
$$;
REVOKE ALL ON FUNCTION @schema@.tenants_in FROM PUBLIC;

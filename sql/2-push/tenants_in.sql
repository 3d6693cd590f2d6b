-- How many tenants have a lane; no more than 20 are counted. One at a time from the newest back, as what lies behind the row
-- without a tenant must not be read (see tenant_lane).
CREATE OR REPLACE FUNCTION @schema@.tenants_in(_queue_id integer, _lane smallint) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  _row record;
  _before bigint := 9223372036854775807;
BEGIN
  FOR _count IN 0..19 LOOP
    SELECT t.number, t.tenant INTO _row FROM @schema@.tenant_lanes t
    WHERE t.queue_id = _queue_id AND t.lane = _lane AND t.number < _before ORDER BY t.number DESC LIMIT 1;
    IF NOT FOUND OR _row.tenant = '' THEN
      RETURN _count;
    END IF;
    _before := _row.number;
  END LOOP;
  RETURN 20;
END
$$;
REVOKE ALL ON FUNCTION @schema@.tenants_in FROM PUBLIC;

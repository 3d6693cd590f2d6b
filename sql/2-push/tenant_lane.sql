-- The lane of a tenant in a queue without rules: one of those from -1 to -32, which only tenants have, so that schedulers can
-- give them turns. A tenant that has none gets one that no other has, or if all are taken, the next in turn. It's the same for
-- all of its jobs until it is taken back (see trim_tenants), when it may get another.
--
-- Nothing is locked, and no one waits: two transactions that push the first jobs of a tenant at once give it one lane each.
-- Once both are committed, the lower number counts. (`number` spreads those who look for a free lane at the same moment.)
-- For push functions, whose settings make the lookups probes.
CREATE OR REPLACE FUNCTION @schema@.tenant_lane(_queue_id integer, _tenant text) RETURNS smallint
LANGUAGE plpgsql AS $$
DECLARE
  _lane pg_catalog.int2;
  _number pg_catalog.int8;
BEGIN
  SELECT t.lane INTO _lane FROM @schema@.tenant_lanes t
  WHERE t.queue_id = _queue_id AND t.tenant = _tenant COLLATE "C" ORDER BY t.number LIMIT 1;
  IF FOUND THEN
    RETURN _lane;
  END IF;
  _number := nextval('@schema@.tenants');
  SELECT -1 - (_number + i) % 32 INTO _lane FROM generate_series(0, 31) AS i
  WHERE NOT EXISTS (SELECT FROM @schema@.tenant_lanes t WHERE t.queue_id = _queue_id AND t.lane = (-1 - (_number + i) % 32)::pg_catalog.int2)
  LIMIT 1;
  IF NOT FOUND THEN
    _lane := -1 - _number % 32;
  END IF;
  INSERT INTO @schema@.tenant_lanes (number, given_at, queue_id, lane, tenant)
  VALUES (_number, clock_timestamp(), _queue_id, _lane, _tenant);
  RETURN _lane;
END
$$;

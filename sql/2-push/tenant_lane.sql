-- The lane of a tenant in a queue without rules: one of those from -1 to -32, which only tenants have, so that schedulers can
-- give them turns. It's the same for all of its jobs until it is taken back (see trim_tenants), when it may get another, or until
-- another tenant's jobs have waited there for five seconds: then it gets another if that is better. One whose own jobs fill
-- the lane stays, or it would have the share of many.
--
-- A tenant that has none gets one that no other has, and in which nobody's jobs wait: some may be left from before it was given
-- back. If there is none, it gets, of four, the one in which jobs have waited least (see tenant_wait), and of those where they
-- have waited about as long, the one that fewest tenants have. So it doesn't share with a tenant that has piled up a lot, unless
-- four lanes have one. Where nobody tells of waits, it is the number of tenants that decides.
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
  _start constant pg_catalog.int4 := hashtext(_tenant COLLATE "C") & 31;
  _now constant pg_catalog.timestamptz := clock_timestamp();
  _stays boolean;
  _former pg_catalog.int2;
  _lane pg_catalog.int2;
BEGIN
  -- As tenant_wait has it: each push of a tenant comes here, and a function of its own would take as long as the rest.
  SELECT t.lane, w.seconds < 5 OR w.tenant IN ('', _tenant COLLATE "C") INTO _former, _stays
  FROM @schema@.tenant_lanes t LEFT JOIN LATERAL (
    SELECT n.waits[-t.lane] AS seconds, n.tenants[-t.lane] AS tenant FROM @schema@.tenant_waits n
    WHERE n.queue_id = _queue_id AND n.told_at BETWEEN _now - interval '10 s' AND _now ORDER BY 1 DESC LIMIT 1
  ) w ON true
  WHERE t.queue_id = _queue_id AND t.tenant = _tenant COLLATE "C" ORDER BY t.number DESC LIMIT 1;
  IF FOUND AND _stays IS NOT FALSE THEN
    RETURN _former;
  END IF;
  SELECT l.lane INTO _lane
  FROM generate_series(0, 31) AS i CROSS JOIN LATERAL (SELECT (-1 - (_start + i) % 32)::pg_catalog.int2 AS lane) l
  -- As an EXISTS, it would read the lanes of all tenants.
  WHERE coalesce((
    SELECT t.tenant FROM @schema@.tenant_lanes t
    WHERE t.queue_id = _queue_id AND t.lane = l.lane ORDER BY t.number DESC LIMIT 1
  ), '') = '' AND (@schema@.tenant_wait(_queue_id, l.lane)).seconds = 0
  LIMIT 1;
  IF NOT FOUND THEN
    SELECT l.lane INTO _lane
    FROM (
      SELECT i, (-1 - (_start + i) % 32)::pg_catalog.int2 AS lane FROM generate_series(0, 3) AS i
      UNION ALL
      SELECT -1, _former WHERE _former IS NOT NULL
    ) l
    ORDER BY ceil(ln(1 + (@schema@.tenant_wait(_queue_id, l.lane)).seconds)), l.i >= 0,
      @schema@.tenants_in(_queue_id, l.lane), l.i LIMIT 1;
  END IF;
  IF _lane = _former THEN
    RETURN _lane;
  END IF;
  INSERT INTO @schema@.tenant_lanes (number, given_at, queue_id, lane, tenant)
  VALUES (nextval('@schema@.tenants'), clock_timestamp(), _queue_id, _lane, _tenant)
  -- Where the sequence was restored without its rows. The next push draws another number.
  ON CONFLICT DO NOTHING;
  RETURN _lane;
END
$$;

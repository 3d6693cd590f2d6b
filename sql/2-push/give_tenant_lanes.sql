-- The lanes of tenants in a queue without rules, each of which is named once: those that they have, or others that they get here
-- (see tenant_lane). What all lanes have in common is read once, however many tenants there are.
DROP FUNCTION IF EXISTS @schema@.tenant_wait(integer, smallint);
CREATE OR REPLACE FUNCTION @schema@.give_tenant_lanes(_queue_id integer, _tenants text[]) RETURNS smallint[]
LANGUAGE plpgsql AS $$
DECLARE
  _now constant pg_catalog.timestamptz := clock_timestamp();
  _lanes pg_catalog.int2[] := ARRAY(
    SELECT (
      SELECT t.lane FROM @schema@.tenant_lanes t
      WHERE t.queue_id = _queue_id AND t.tenant = i.tenant COLLATE "C" ORDER BY t.number DESC LIMIT 1
    )
    FROM unnest(_tenants) WITH ORDINALITY AS i(tenant, n) ORDER BY i.n
  );
  -- Of the lanes -1 to -32: how many seconds jobs have waited there, and whose they are; the same by powers of e; how many tenants have
  -- the lane, NULL where nobody has counted them yet.
  _waits pg_catalog.int4[];
  _owners pg_catalog.text[];
  _grades pg_catalog.int4[];
  _counts pg_catalog.int4[];
  -- How many of them no tenant has, and hold no jobs.
  _free pg_catalog.int4;
  _hash pg_catalog.int4;
  _former pg_catalog.int4;
  _place pg_catalog.int4;
  _best pg_catalog.int4;
BEGIN
  WITH told AS MATERIALIZED (
    SELECT w.waits, w.tenants FROM @schema@.tenant_waits w
    WHERE w.queue_id = _queue_id AND w.told_at BETWEEN _now - interval '10 s' AND _now
  )
  SELECT array_agg(greatest(w.seconds, 0) ORDER BY n), array_agg(coalesce(w.tenant, '') ORDER BY n),
    array_agg(ceil(ln(1 + greatest(w.seconds, 0)))::pg_catalog.int4 ORDER BY n)
  INTO _waits, _owners, _grades
  FROM generate_series(1, 32) AS n
  LEFT JOIN LATERAL (SELECT t.waits[n] AS seconds, t.tenants[n] AS tenant FROM told t ORDER BY 1 DESC LIMIT 1) w ON true;

  FOR _n IN 1..cardinality(_tenants) LOOP
    _hash := hashtext(_tenants[_n] COLLATE "C");
    _former := -_lanes[_n];
    CONTINUE WHEN _waits[_former] < 5 OR _owners[_former] IN ('', _hash::text);

    IF _free IS NULL THEN
      SELECT array_agg(CASE WHEN l.tenant = '' THEN 0 END ORDER BY l.n), count(*) FILTER (WHERE l.tenant = '' AND _grades[l.n] = 0)
      INTO _counts, _free
      FROM (
        -- As an EXISTS, it would read the lanes of all tenants.
        SELECT n, coalesce((
          SELECT t.tenant FROM @schema@.tenant_lanes t WHERE t.queue_id = _queue_id AND t.lane = -n ORDER BY t.number DESC LIMIT 1
        ), '') AS tenant
        FROM generate_series(1, 32) AS n OFFSET 0
      ) l;
    END IF;

    _best := _former;
    IF _free > 0 THEN
      SELECT l.place INTO _best
      FROM generate_series(0, 31) AS i CROSS JOIN LATERAL (SELECT 1 + ((_hash & 31) + i) % 32 AS place) l
      WHERE _counts[l.place] = 0 AND _grades[l.place] = 0 LIMIT 1;
      _free := _free - 1;
    ELSE
      FOR _i IN 0..3 LOOP
        _place := 1 + ((_hash & 31) + _i) % 32;
        IF _best IS NULL OR _grades[_place] < _grades[_best] THEN
          _best := _place;
        ELSIF _grades[_place] = _grades[_best] AND _best IS DISTINCT FROM _former THEN
          _counts[_place] := coalesce(_counts[_place], @schema@.tenants_in(_queue_id, -_place::pg_catalog.int2));
          _counts[_best] := coalesce(_counts[_best], @schema@.tenants_in(_queue_id, -_best::pg_catalog.int2));
          IF _counts[_place] < _counts[_best] THEN
            _best := _place;
          END IF;
        END IF;
      END LOOP;
    END IF;
    CONTINUE WHEN _best = _former;

    _counts[_best] := _counts[_best] + 1;
    _lanes[_n] := -_best;
    INSERT INTO @schema@.tenant_lanes (number, given_at, queue_id, lane, tenant)
    VALUES (nextval('@schema@.tenants'), clock_timestamp(), _queue_id, -_best, _tenants[_n])
    -- Where the sequence was restored without its rows. The next push draws another number.
    ON CONFLICT DO NOTHING;
  END LOOP;
  RETURN _lanes;
END
$$;

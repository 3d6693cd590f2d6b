-- Notes that a round of each of these tenants has begun, for the rates of a queue and of its tenants: a row with the new total,
-- as of the end of that hundredth of the window. A former one of the same hundredth goes. It is not updated: what an old snapshot
-- keeps of it would be met before it, and read each time (see started).
--
-- For note_taken, which has the lock, and whose settings make the lookups probes. No one else moves a row that is replaced.
CREATE OR REPLACE FUNCTION @schema@.note_starts(_queue_id integer, _limits jsonb, _tenants text[], _now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  WITH begun AS MATERIALIZED (
    SELECT r.tenant, count(*) AS rounds, @schema@.rate_window(r.per::double precision) AS span,
      to_timestamp(ceil(extract(epoch FROM _now) * 100 / r.per) * r.per / 100) + interval '1 us' AS at
    FROM (
      SELECT '' AS tenant, (_limits->'rate'->>'per')::numeric AS per FROM unnest(_tenants)
      UNION ALL
      SELECT t.tenant, (_limits->'tenant'->'rate'->>'per')::numeric FROM unnest(_tenants) AS t(tenant) WHERE t.tenant <> ''
    ) r
    WHERE r.per IS NOT NULL GROUP BY r.tenant, r.per
  ), noted AS MATERIALIZED (
    SELECT b.tenant, b.rounds, n.tid, coalesce(n.clock, 0) AS clock, n.at AS former_at, greatest(b.at, n.at) AS at,
      coalesce(n.total, 0) AS total,
      greatest(n.gone, @schema@.starts_until(_queue_id, b.tenant, n.clock, _now - b.span), 0) AS gone
    FROM begun b LEFT JOIN LATERAL (
      SELECT s.ctid AS tid, s.clock, s.at, s.total, s.gone FROM @schema@.starts s
      WHERE s.queue_id = _queue_id AND s.tenant = b.tenant COLLATE "C" ORDER BY s.clock DESC, s.at DESC, s.total DESC LIMIT 1
    ) n ON true
  ), replaced AS (
    DELETE FROM @schema@.starts s
    WHERE s.queue_id + 0 = _queue_id AND s.ctid = ANY (ARRAY(SELECT n.tid FROM noted n WHERE n.at = n.former_at))
  )
  INSERT INTO @schema@.starts (queue_id, tenant, clock, at, total, gone)
  SELECT _queue_id, n.tenant, n.clock, n.at, n.total + n.rounds, n.gone FROM noted n;
END
$$;
REVOKE ALL ON FUNCTION @schema@.note_starts FROM PUBLIC;

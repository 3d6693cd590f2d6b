-- Which limits are reached: of a queue (tenant NULL) or of one of its tenants. `used`: how many ids are held at once, or how many
-- rounds began within the window of the rate, of `most`. `until`: when the next one may begin; NULL if that depends on when a
-- round ends. Whether anything waits for it is not asked.
CREATE OR REPLACE VIEW @schema@.limited AS
SELECT q.name AS queue, l.tenant, l.what, l.most, l.used, l.until
FROM @schema@.queues q
CROSS JOIN LATERAL (
  SELECT 'concurrency' AS what, c.tenant, c.most, count(*)::integer AS used, NULL::timestamptz AS until
  FROM @schema@.holds h
  JOIN @schema@.jobs j ON j.queue_id = h.queue_id AND j.id = h.job_id AND j.fence = h.fence AND j.claimed_by = h.process_id
  JOIN (SELECT o.process_id FROM @schema@.processes o UNION ALL SELECT 0) p ON p.process_id = h.process_id
  CROSS JOIN LATERAL (
    SELECT NULL AS tenant, (q.limits->>'concurrency')::integer AS most
    UNION ALL SELECT h.tenant, (q.limits->'tenant'->>'concurrency')::integer WHERE h.tenant <> ''
  ) c
  WHERE h.queue_id = q.queue_id AND c.most IS NOT NULL
  GROUP BY c.tenant, c.most HAVING count(*) >= c.most
  UNION ALL
  SELECT 'rate', nullif(s.tenant, ''), s.jobs, (s.all - s.gone)::integer, min(s.at) FILTER (WHERE s.total > s.all - s.jobs) + s.per
  FROM (
    -- As started and next_start.
    SELECT s.tenant, s.at, s.total, r.jobs, r.per, max(s.total) OVER tenants AS all,
      greatest(max(s.gone) OVER tenants, max(s.total) FILTER (WHERE s.at <= clock_timestamp() - r.per) OVER tenants) AS gone
    FROM @schema@.starts s
    CROSS JOIN LATERAL (SELECT CASE WHEN s.tenant = '' THEN q.limits->'rate' ELSE q.limits->'tenant'->'rate' END AS rate) t
    CROSS JOIN LATERAL (
      SELECT (t.rate->>'jobs')::integer AS jobs,
        -- As rate_window, which a viewer need not have the right to call.
        greatest(t.per, 0.99 * t.per + least(0.1, t.per / 10)) * interval '1 second' AS per
      FROM (SELECT t.rate, (t.rate->>'per')::float8 AS per) t
    ) r
    WHERE s.queue_id = q.queue_id AND s.clock = (
      SELECT max(n.clock) FROM @schema@.starts n WHERE n.queue_id = s.queue_id AND n.tenant = s.tenant
    )
    WINDOW tenants AS (PARTITION BY s.tenant)
  ) s
  GROUP BY s.tenant, s.jobs, s.per, s.all, s.gone HAVING s.all - s.gone >= s.jobs
) l
WHERE q.limits IS NOT NULL;

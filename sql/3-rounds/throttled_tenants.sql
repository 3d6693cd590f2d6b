-- The tenants whose next job a rule would send to another lane, as lanes_of decides it: of those that have pushed within the last
-- `_seconds`, and of those that are known already. No more than a thousand of each queue, and those that are known are never cut off
-- by others: it would look as if they were throttled no more.
-- statement_timestamp, so that the index bounds what is read: what is volatile is compared with each row, of a day of pushes.
-- It runs with its owner's rights, for the workers' role.
CREATE OR REPLACE FUNCTION @schema@.throttled_tenants(
  _queue_ids integer[], _seconds double precision, _known_queue_ids integer[], _known_tenants text[]
) RETURNS TABLE (queue_id integer, tenant text, lane integer)
LANGUAGE sql STABLE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  SELECT q.queue_id, d.tenant, d.lane
  FROM @schema@.queues q CROSS JOIN LATERAL (
    SELECT c.tenant, r.lane
    FROM (
      SELECT a.tenant, bool_or(a.is_known) AS is_known FROM (
        SELECT p.tenant, false AS is_known FROM @schema@.tenant_pushes p
        WHERE p.queue_id = q.queue_id AND p.pushed_at >= statement_timestamp() - _seconds * interval '1 s'
        UNION ALL
        SELECT k.tenant, true FROM unnest(_known_queue_ids, _known_tenants) AS k(queue_id, tenant) WHERE k.queue_id = q.queue_id
      ) a
      GROUP BY a.tenant
    ) c
    CROSS JOIN LATERAL (
      SELECT (e.rule->>'lane')::integer AS lane
      FROM jsonb_array_elements(q.fairness->'rules') WITH ORDINALITY AS e(rule, n)
      WHERE (e.rule->>'over')::bigint <= (
        SELECT coalesce(sum(n.pushes), 0) FROM (
          SELECT p.pushes FROM @schema@.tenant_pushes p
          WHERE p.queue_id = q.queue_id AND p.tenant = c.tenant COLLATE "C"
            AND p.pushed_at >= statement_timestamp() - (e.rule->>'per')::double precision * interval '1 s'
          ORDER BY p.pushed_at DESC LIMIT (e.rule->>'over')::bigint + 1
        ) n
      )
      ORDER BY e.n DESC LIMIT 1
    ) r
    ORDER BY NOT c.is_known, c.tenant COLLATE "C" LIMIT 1000
  ) d
  WHERE q.queue_id = ANY (_queue_ids)
$$;
REVOKE ALL ON FUNCTION @schema@.throttled_tenants FROM PUBLIC;

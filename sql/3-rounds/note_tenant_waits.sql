-- Notes how long the first jobs of tenants have been due, in seconds, for the pushes of newcomers (see tenant_lane): for each
-- queue, 32 numbers, those of the lanes -1, -2 and so on.
--
-- It runs with its owner's rights, for the workers' role.
CREATE OR REPLACE FUNCTION @schema@.note_tenant_waits(_queue_ids integer[], _waits integer[]) RETURNS void
LANGUAGE sql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  INSERT INTO @schema@.tenant_waits (told_at, queue_id, waits)
  SELECT clock_timestamp(), e.queue_id, _waits[32 * (e.n - 1) + 1 : 32 * e.n]
  FROM unnest(_queue_ids) WITH ORDINALITY AS e(queue_id, n)
$$;
REVOKE ALL ON FUNCTION @schema@.note_tenant_waits FROM PUBLIC;

-- Deletes idempotency keys that are older than 24 hours, _most at once, and returns how many. A key that somebody is using again
-- has its row locked, and is left alone; one that was used again meanwhile is looked at once more when it's locked, and is no
-- longer old. Two at once do no harm.
--
-- It runs with its owner's rights, for the workers' role: that can't change anything else in the table.
CREATE OR REPLACE FUNCTION @schema@.trim_keys(_most integer DEFAULT 10000) RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _trimmed integer;
BEGIN
  WITH old AS MATERIALIZED (
    SELECT o.holder, o.key FROM @schema@.idempotency_keys o
    WHERE o.noted_at <= clock_timestamp() - interval '24 hours'
    ORDER BY o.noted_at LIMIT _most FOR UPDATE SKIP LOCKED
  )
  DELETE FROM @schema@.idempotency_keys k USING old o WHERE k.holder = o.holder AND k.key = o.key;
  GET DIAGNOSTICS _trimmed = ROW_COUNT;
  RETURN _trimmed;
END
$$;
REVOKE ALL ON FUNCTION @schema@.trim_keys FROM PUBLIC;

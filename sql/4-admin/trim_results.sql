-- Deletes results that are kept no longer, _most at once, and returns how many. One whose row is locked is left for the next
-- time. Two at once do no harm.
--
-- It runs with its owner's rights, for the workers' role: that can't change anything else in the table.
CREATE OR REPLACE FUNCTION @schema@.trim_results(_most integer DEFAULT 10000) RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _trimmed integer;
BEGIN
  WITH old AS MATERIALIZED (
    SELECT o.queue_id, o.job_id, o.fence FROM @schema@.results o
    WHERE o.keep_until <= clock_timestamp()
    ORDER BY o.keep_until LIMIT _most FOR UPDATE SKIP LOCKED
  )
  DELETE FROM @schema@.results r USING old o WHERE r.queue_id = o.queue_id AND r.job_id = o.job_id AND r.fence = o.fence;
  GET DIAGNOSTICS _trimmed = ROW_COUNT;
  RETURN _trimmed;
END
$$;
REVOKE ALL ON FUNCTION @schema@.trim_results FROM PUBLIC;

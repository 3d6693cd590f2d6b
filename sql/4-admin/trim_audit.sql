-- Deletes entries of the audit that are older than 90 days, or have 100,000 after them, and returns how many. It takes the
-- oldest thousand in view, and comes again: so it reads no more than that, along the primary key. Two at once do no harm.
--
-- It runs with its owner's rights, for the workers' role: that keeps the audit short, and can't change anything else in it.
CREATE OR REPLACE FUNCTION @schema@.trim_audit() RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _trimmed integer;
BEGIN
  -- A range, not a join: a plan that was made when the table was empty serves here, too.
  DELETE FROM @schema@.audit a
  WHERE a.audit_id <= (SELECT max(o.audit_id) FROM (SELECT t.audit_id FROM @schema@.audit t ORDER BY t.audit_id LIMIT 1000) o)
    AND (
      a.began_at < clock_timestamp() - interval '90 days' OR a.audit_id <= (SELECT max(l.audit_id) FROM @schema@.audit l) - 100000
    );
  GET DIAGNOSTICS _trimmed = ROW_COUNT;
  RETURN _trimmed;
END
$$;
REVOKE ALL ON FUNCTION @schema@.trim_audit FROM PUBLIC;

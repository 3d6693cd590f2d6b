-- Removes processes that have been silent for as long as their leases: their claims are free from then on. The caller
-- has seen each with this renewal, has counted its whole lease since then on a clock that no one sets, and finds the
-- same renewal here. Returns those it has removed.
--
-- Their own time is over by then. A process counts its lease from before it asks for a renewal. The renewal was seen
-- after it was stored, and the caller counts from when it saw it. So the caller's end is the later one, whatever the
-- server's clock says, and however long the caller stood still between its looks: what counts is the renewal found
-- here. No renewal is ever drawn twice, not even if a crash or a failover has lost the last ones, so a later one can't
-- look the same.
--
-- A renewal changes the same row. If it comes first, it has changed what is compared, or holds the row (SKIP LOCKED):
-- its process is alive. If it comes second, it finds no row, and its process knows that it has lost its lease.
CREATE OR REPLACE FUNCTION @schema@.remove_silent(_process_ids integer[], _renewals uuid[]) RETURNS SETOF integer
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM @schema@.require_read_committed();
  RETURN QUERY
  WITH silent AS MATERIALIZED (
    SELECT p.process_id FROM @schema@.processes p
    JOIN unnest(_process_ids, _renewals) AS seen(process_id, renewal)
      ON p.process_id = seen.process_id AND p.renewal = seen.renewal
    FOR UPDATE OF p SKIP LOCKED
  )
  DELETE FROM @schema@.processes p USING silent s WHERE p.process_id = s.process_id RETURNING p.process_id;
  -- Also those that a renewal stored while its process was being removed. A report comes after its process: one that is
  -- seen here without it is left over.
  DELETE FROM @schema@.process_reports r
  WHERE NOT EXISTS (SELECT FROM @schema@.processes p WHERE p.process_id = r.process_id);
END
$$;

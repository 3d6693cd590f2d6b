-- Removes processes that have been silent for as long as their leases: their claims are free from then on. The caller has seen
-- each with this renewal, has counted its whole lease since then on a clock that nobody sets, and finds the same
-- renewal here. Returns those it has removed.
--
-- Their own time is over by then. Who renews counts his lease from before he asks; the renewal was seen after that was
-- done, and the caller counts from when he saw it. So his end is the later one, whatever the server's clock says, and
-- however long the caller stood still between his looks: it is the renewal found here that counts. None is ever drawn
-- twice, not even where a crash or a failover has lost the last ones, so it can't be a later one that looks the same.
--
-- A renewal changes the same row. One that comes first has changed what is compared, or holds the row (SKIP LOCKED): its
-- process is alive. One that comes second finds no row, and its process knows that it has lost its lease.
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
END
$$;

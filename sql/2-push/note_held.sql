-- Notes which ids of a queue are held, for its limits: those that were claimed before there were any. It reads all jobs of the
-- queue. Claims that began before the limits and were committed after this are not counted: so it's called twice, once with
-- the limits and once after they were committed, when no such claim is left but those of the moment.
-- It runs with its owner's rights, for the workers' role.
CREATE OR REPLACE FUNCTION @schema@.note_held(_queue_id integer) RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM pg_advisory_xact_lock('@schema@.holds'::regclass::oid::integer, _queue_id);
  INSERT INTO @schema@.holds (queue_id, number, checkpoint, process_id, fence, tenant, job_id)
  SELECT _queue_id, n.number + row_number() OVER () - 1, n.checkpoint, j.claimed_by, j.fence, coalesce(j.tenant, ''), j.id
  FROM @schema@.next_hold(_queue_id) n CROSS JOIN @schema@.jobs j
  WHERE j.queue_id = _queue_id AND j.claimed_by IS NOT NULL AND NOT EXISTS (
    SELECT FROM @schema@.holds h WHERE h.queue_id = _queue_id AND h.job_id = j.id AND h.fence = j.fence
  );
END
$$;
REVOKE ALL ON FUNCTION @schema@.note_held FROM PUBLIC;

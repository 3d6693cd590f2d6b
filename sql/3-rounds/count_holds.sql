-- How many ids of a queue are held, and of each of its tenants, as its limits count them; forgets holds that count no more. A
-- hold counts if the job's row still has its fence and process, and the process lives: so whatever ends a round gives its place
-- back by that alone, a process that dies included. The caller has the lock of the queue's limits: what was claimed before is
-- committed, and no one else notes, moves or deletes holds.
--
-- While an old snapshot is held, holds that were deleted since then stay in the index, and would be read each time. So they have
-- numbers that ascend as they are noted, and the newest says from which on all lie that count: the checkpoint. The newest is
-- the first that is met from the end, since it is never deleted before there is a newer one, though it may count no more.
-- What died before the checkpoint isn't read. If more lie behind it that count no more than that do, and more than 500,
-- those that count are moved to the end, and the checkpoint with them: so a hold is moved once for each round that has
-- ended, on average, at most.
--
-- (For take_within_limits, whose settings make the lookups probes. A process is looked up once: its row is often renewed.)
CREATE OR REPLACE FUNCTION @schema@.count_holds(_queue_id integer, _limits jsonb, OUT held bigint, OUT of_tenants jsonb)
LANGUAGE plpgsql AS $$
DECLARE
  _newest bigint;
  _checkpoint bigint;
  _ended bigint[];
  _kept bigint;
BEGIN
  IF NOT (_limits ? 'concurrency') AND (_limits->'tenant' ? 'concurrency') IS NOT TRUE THEN
    RETURN;
  END IF;
  SELECT h.number, h.checkpoint INTO _newest, _checkpoint
  FROM @schema@.holds h WHERE h.queue_id = _queue_id ORDER BY h.number DESC LIMIT 1;
  WITH noted AS MATERIALIZED (
    SELECT h.number, h.tenant, h.process_id, (
      SELECT true FROM @schema@.jobs j
      WHERE j.queue_id = _queue_id AND j.id >= h.job_id AND j.id <= h.job_id AND j.fence = h.fence AND j.claimed_by = h.process_id
      ORDER BY j.id LIMIT 1
    ) IS NOT NULL AS is_claimed
    FROM @schema@.holds h WHERE h.queue_id = _queue_id AND h.number >= _checkpoint
  ), seen AS MATERIALIZED (
    SELECT n.number, n.tenant, n.is_claimed AND NOT n.process_id = ANY (ARRAY(
      SELECT p.process_id FROM (SELECT DISTINCT n.process_id FROM noted n WHERE n.is_claimed AND n.process_id <> 0) p
      WHERE (SELECT true FROM @schema@.processes l WHERE l.process_id = p.process_id) IS NULL
    )) AS counts
    FROM noted n
  )
  SELECT (SELECT count(*) FROM seen s WHERE s.counts), (
    SELECT jsonb_object_agg(t.tenant, t.held)
    FROM (SELECT s.tenant, count(*) AS held FROM seen s WHERE s.counts GROUP BY s.tenant) t
  ), ARRAY(SELECT s.number FROM seen s WHERE NOT s.counts AND s.number < _newest), (
    SELECT count(*) FROM seen s WHERE s.counts OR s.number = _newest
  )
  INTO held, of_tenants, _ended, _kept;
  IF _ended <> '{}' THEN
    DELETE FROM @schema@.holds h WHERE h.queue_id = _queue_id AND h.number = ANY (_ended);
  END IF;
  IF _newest - _checkpoint + 1 - _kept > greatest(500, _kept) THEN
    WITH moved AS (
      DELETE FROM @schema@.holds h WHERE h.queue_id = _queue_id AND h.number >= _checkpoint AND h.number <= _newest RETURNING h.*
    )
    INSERT INTO @schema@.holds (queue_id, number, checkpoint, process_id, fence, tenant, job_id)
    SELECT m.queue_id, _newest + row_number() OVER (), _newest + 1, m.process_id, m.fence, m.tenant, m.job_id FROM moved m;
  END IF;
END
$$;
REVOKE ALL ON FUNCTION @schema@.count_holds FROM PUBLIC;

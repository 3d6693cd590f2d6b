-- Lets the leases of rounds end no earlier than `_lease` seconds from now. Returns those rounds that are `lost`: they were
-- settled, or their leases have been ended.
--
-- The row of the job isn't locked: a producer's open transaction keeps no one from extending. What must not happen is that
-- end_leases ends a lease at the same time. So both take the advisory lock of its fence first, and look at the job and its
-- leases in statements of their own after that: whoever comes second sees what the first has committed. A lease that is over
-- and wasn't ended yet is still its holder's.
CREATE OR REPLACE FUNCTION @schema@.extend_leases(
  _queue_ids integer[], _ids text[], _fences bigint[], _lease double precision
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
@lookups@ SET enable_sort = off SET enable_incremental_sort = off
AS $$
DECLARE
  _fence bigint;
  _held integer[];
BEGIN
  PERFORM @schema@.require_read_committed();
  FOR _fence IN SELECT DISTINCT f.fence FROM unnest(_fences) AS f(fence) ORDER BY 1 LOOP
    PERFORM pg_advisory_xact_lock('@schema@.leases'::regclass::oid::integer, @schema@.lock_of_fence(_fence));
  END LOOP;
  SELECT array_agg(r.place::integer) INTO _held
  FROM unnest(_queue_ids, _ids, _fences) WITH ORDINALITY AS r(queue_id, id, fence, place)
  CROSS JOIN LATERAL (
    SELECT j.id FROM @schema@.jobs j
    WHERE j.queue_id = r.queue_id AND j.id >= r.id COLLATE "C" AND j.id <= r.id COLLATE "C" AND j.fence = r.fence AND j.claimed_by = 0
    ORDER BY j.id LIMIT 1
  ) j;
  INSERT INTO @schema@.leases (ends_at, fence, queue_id, max_retry_count, ids, cuts)
  SELECT clock_timestamp() + make_interval(secs => _lease), _fences[p.place], _queue_ids[p.place], l.max_retry_count,
    array_agg(_ids[p.place]), l.cuts
  FROM unnest(_held) AS p(place)
  CROSS JOIN LATERAL (
    SELECT o.max_retry_count, o.cuts FROM @schema@.leases o
    WHERE o.queue_id = _queue_ids[p.place] AND o.fence = _fences[p.place] AND _ids[p.place] COLLATE "C" = ANY (o.ids) LIMIT 1
  ) l
  GROUP BY 2, 3, 4, 6;
  RETURN QUERY SELECT u.* FROM @schema@.unsettled(_queue_ids, 0, _ids, _fences, _held) u;
END
$$;

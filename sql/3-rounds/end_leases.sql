-- Ends leases that are over: their rounds have failed (R6, R7), and wait again at once. Looks at `_most` leases, the one first
-- that ended first, and returns how many of those it has dealt with, how many rounds it has ended, and when the next one is
-- over: in ms from now, NULL if there are none.
--
-- 1. Leases that another session deals with, or extends at this very moment, are left to the next call (see extend_leases).
-- 2. A round is ended if it's still held and no other lease of its claim runs on. fail_claims looks at the fence again on the
--    newest version of the row: a completion that comes first has ended the claim, one that comes second finds it lost.
-- 3. Rows that a producer's open transaction has locked, and deaths that would wait for a row in the morgue, are tried again
--    half a second later. Until then the claim stands. So neither holds up what comes after it.
--
-- It runs with its owner's rights, for workers under the roles of the release before.
CREATE OR REPLACE FUNCTION @schema@.end_leases(_most integer DEFAULT 50)
RETURNS TABLE (leases integer, rounds integer, next double precision)
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '200ms'
@lookups@ SET enable_sort = off SET enable_incremental_sort = off
AS $$
DECLARE
  _lease pg_catalog.record;
  _ids text[];
  _retry_ins double precision[];
  _left text[];
  _lost integer;
  _heads text[];
BEGIN
  PERFORM @schema@.require_read_committed();
  leases := 0;
  rounds := 0;
  FOR _lease IN
    SELECT l.ctid AS tid, l.queue_id, l.fence, l.max_retry_count, l.ids FROM @schema@.leases l
    WHERE l.ends_at <= clock_timestamp() ORDER BY l.ends_at LIMIT _most FOR UPDATE SKIP LOCKED
  LOOP
    leases := leases + 1;
    CONTINUE WHEN NOT pg_try_advisory_xact_lock('@schema@.leases'::regclass::oid::integer, @schema@.lock_of_fence(_lease.fence));
    SELECT array_agg(j.id), array_agg(CASE WHEN j.retry_count + 1 < _lease.max_retry_count THEN 0 END::double precision)
    INTO _ids, _retry_ins
    FROM unnest(_lease.ids) AS i(id)
    CROSS JOIN LATERAL (
      SELECT t.id, t.retry_count FROM @schema@.jobs t
      WHERE t.queue_id = _lease.queue_id AND t.id >= i.id COLLATE "C" AND t.id <= i.id COLLATE "C"
        AND t.fence = _lease.fence AND t.claimed_by = 0
      ORDER BY t.id LIMIT 1
    ) j
    WHERE (
      SELECT true FROM @schema@.leases o
      WHERE o.queue_id = _lease.queue_id AND o.fence = _lease.fence AND o.ends_at > clock_timestamp() AND i.id = ANY (o.ids) LIMIT 1
    ) IS NULL;
    IF _ids IS NULL THEN
      DELETE FROM @schema@.leases l WHERE l.queue_id + 0 = _lease.queue_id AND l.ctid = _lease.tid;
      CONTINUE;
    END IF;
    BEGIN
      SELECT array_agg(f.id) FILTER (WHERE f.outcome = 'held'), count(*) FILTER (WHERE f.outcome = 'lost'),
        array_agg(f.shard || ':' || f.lane || ':' || f.perform_in) FILTER (WHERE f.outcome = 'again')
      INTO _left, _lost, _heads
      FROM @schema@.fail_claims(
        array_fill(_lease.queue_id, ARRAY[cardinality(_ids)]), 0, _ids, array_fill(_lease.fence, ARRAY[cardinality(_ids)]),
        array_fill('the lease ended before the job was settled'::text, ARRAY[cardinality(_ids)]), _retry_ins,
        array_fill('lease'::text, ARRAY[cardinality(_ids)]), false
      ) f;
    EXCEPTION WHEN lock_not_available THEN
      _left := _ids;
      _lost := 0;
      _heads := NULL;
    END;
    rounds := rounds + cardinality(_ids) - _lost - coalesce(cardinality(_left), 0);
    IF _heads IS NOT NULL AND @schema@.has_listener(_lease.queue_id) THEN
      PERFORM @schema@.wake(_lease.queue_id, _heads);
    END IF;
    IF _left IS NULL THEN
      DELETE FROM @schema@.leases l WHERE l.queue_id + 0 = _lease.queue_id AND l.ctid = _lease.tid;
    ELSE
      UPDATE @schema@.leases l SET ids = _left, ends_at = clock_timestamp() + interval '500 ms' WHERE l.queue_id + 0 = _lease.queue_id AND l.ctid = _lease.tid;
    END IF;
  END LOOP;
  next := (
    SELECT extract(epoch FROM l.ends_at - clock_timestamp()) * 1000 FROM @schema@.leases l ORDER BY l.ends_at LIMIT 1
  );
  RETURN NEXT;
END
$$;
REVOKE ALL ON FUNCTION @schema@.end_leases FROM PUBLIC;

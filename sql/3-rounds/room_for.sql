-- How many more jobs a process may claim now, by the limits of a queue (_tenant = '') or of one of its tenants: NULL for as many
-- as it likes. If a rate lets it have no more than that, `until` is when the next start leaves the window; otherwise NULL, since no
-- one knows when a round ends. `_limits`: { concurrency, rate: { jobs, per } }, each of which may be missing. The caller holds
-- the lock of the queue's limits, and has deleted holds of rounds that have ended.
--
-- The window slides: of the starts that are younger than `per` seconds, there are never more than `jobs`. They are noted by
-- hundredths of the window, as of the end of theirs, so that there are few to be read: a start counts for up to a hundredth
-- longer, or a tenth of a second (see rate_window). If the server's clock was set back, starts lie in its future: they count from now on.
--
-- A process that claims in the same call in which it completes would always get the place that it gave back. So one that was
-- turned away is noted in turns: who comes later leaves a place for each that has waited for a tenth of a second, and has
-- asked again within the last second. And it wakes them.
CREATE OR REPLACE FUNCTION @schema@.room_for(
  _process_id integer, _queue_id integer, _tenant text, _limits jsonb, _now timestamptz,
  OUT free integer, OUT until timestamptz
)
LANGUAGE plpgsql
@lookups@
AS $$
DECLARE
  _most constant integer := _limits->>'concurrency';
  _jobs constant integer := _limits->'rate'->>'jobs';
  _per constant interval := (_limits->'rate'->>'per')::float8 * interval '1 s';
  _window constant interval := @schema@.rate_window((_limits->'rate'->>'per')::float8);
  _held integer;
  _mine timestamptz;
  _before integer;
  _heads text[];
  _started integer;
  _oldest timestamptz;
  _newest timestamptz;
  _enough timestamptz;
BEGIN
  IF _most IS NOT NULL THEN
    IF _tenant = '' THEN
      SELECT count(*) INTO _held FROM @schema@.holds h WHERE h.queue_id = _queue_id;
    ELSE
      SELECT count(*) INTO _held FROM @schema@.holds h WHERE h.queue_id = _queue_id AND h.tenant = _tenant COLLATE "C";
    END IF;
    free := greatest(_most - _held, 0);
    IF free > 0 THEN
      SELECT min(t.since) INTO _mine FROM @schema@.turns t
      WHERE t.queue_id = _queue_id AND t.tenant = _tenant COLLATE "C" AND t.process_id = _process_id AND t.seen_at > _now - interval '1 s';
      SELECT count(*), array_agg(t.shard || ':' || t.lane || ':' || @schema@.micros(t.perform_in)) INTO _before, _heads
      FROM @schema@.turns t
      WHERE t.queue_id = _queue_id AND t.tenant = _tenant COLLATE "C" AND t.process_id <> _process_id
        AND t.seen_at > _now - interval '1 s' AND t.since < least(_mine, _now - interval '100 ms')
        AND (SELECT true FROM @schema@.processes p WHERE p.process_id = t.process_id);
      IF _before > 0 THEN
        free := greatest(free - _before, 0);
        PERFORM @schema@.wake(_queue_id, _heads);
      END IF;
    END IF;
  END IF;

  IF _jobs IS NOT NULL THEN
    FOR _attempt IN 1..2 LOOP
      SELECT sum(s.rounds), min(s.at), max(s.at), max(s.at) FILTER (WHERE s.newer >= _jobs)
      INTO _started, _oldest, _newest, _enough
      FROM (
        SELECT s.at, s.rounds, sum(s.rounds) OVER (ORDER BY s.at DESC) AS newer FROM @schema@.starts s
        WHERE s.queue_id = _queue_id AND s.tenant = _tenant COLLATE "C" AND s.at > _now - _window
      ) s;
      EXIT WHEN _newest IS NULL OR _newest <= _now + _per / 50;
      WITH future AS (
        DELETE FROM @schema@.starts s WHERE s.queue_id = _queue_id AND s.tenant = _tenant COLLATE "C" AND s.at > _now
        RETURNING s.rounds
      )
      INSERT INTO @schema@.starts AS s (queue_id, tenant, at, rounds) SELECT _queue_id, _tenant, _now, sum(f.rounds) FROM future f
      ON CONFLICT ON CONSTRAINT starts_pkey DO UPDATE SET rounds = s.rounds + excluded.rounds;
    END LOOP;
    IF free IS NULL OR _jobs - coalesce(_started, 0) <= free THEN
      free := greatest(_jobs - coalesce(_started, 0), 0);
      until := coalesce(_enough, _oldest, _now) + _window;
    END IF;
  END IF;
END
$$;

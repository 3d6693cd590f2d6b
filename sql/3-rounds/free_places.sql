-- How many more jobs a process may claim now, by the limits of a queue (_tenant = '') or of one of its tenants, of which so many
-- ids are held: NULL for as many as it likes. `rated`: a rate lets it have no more than that (see next_start); otherwise more may
-- go when a round ends. `_limits`: { concurrency, rate: { jobs, per } }, each of which may be missing.
--
-- For take_within_limits, which has the lock of the queue's limits, and whose settings make the lookups probes. So are those of what
-- is called here.
CREATE OR REPLACE FUNCTION @schema@.free_places(
  _process_id integer, _queue_id integer, _tenant text, _limits jsonb, _held bigint, _now timestamptz,
  OUT free bigint, OUT rated boolean
)
LANGUAGE plpgsql AS $$
DECLARE
  _most constant integer := _limits->>'concurrency';
  _rate constant jsonb := _limits->'rate';
  _left bigint;
BEGIN
  IF _most IS NOT NULL THEN
    free := greatest(_most - coalesce(_held, 0), 0);
    IF free > 0 THEN
      free := greatest(free - @schema@.leave_places(_process_id, _queue_id, _tenant, _now), 0);
    END IF;
  END IF;
  IF _rate IS NOT NULL THEN
    _left := greatest((_rate->>'jobs')::integer - @schema@.started(_queue_id, _tenant, _rate, _now), 0);
    IF free IS NULL OR _left <= free THEN
      free := _left;
      rated := true;
    END IF;
  END IF;
END
$$;
REVOKE ALL ON FUNCTION @schema@.free_places FROM PUBLIC;

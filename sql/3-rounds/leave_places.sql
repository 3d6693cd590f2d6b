-- For how many other processes one leaves a place of a queue (_tenant = '') or a tenant: those that have waited for a tenth of a
-- second, and longer than itself, and have asked again within the last second. And it wakes them. A process that claims in
-- the same call in which it completes would otherwise always get the place that it gave back.
CREATE OR REPLACE FUNCTION @schema@.leave_places(_process_id integer, _queue_id integer, _tenant text, _now timestamptz)
RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  _mine timestamptz;
  _heads text[];
BEGIN
  SELECT min(t.since) INTO _mine FROM @schema@.turns t
  WHERE t.queue_id = _queue_id AND t.tenant = _tenant COLLATE "C" AND t.seen_at > _now - interval '1 s' AND t.seen_at <= _now
    AND t.process_id = _process_id;
  SELECT array_agg(t.shard || ':' || t.lane || ':' || @schema@.micros(t.perform_in)) INTO _heads
  FROM @schema@.turns t
  WHERE t.queue_id = _queue_id AND t.tenant = _tenant COLLATE "C" AND t.seen_at > _now - interval '1 s' AND t.seen_at <= _now
    AND t.process_id <> _process_id AND t.since < least(_mine, _now - interval '100 ms')
    AND (SELECT true FROM @schema@.processes p WHERE p.process_id = t.process_id);
  IF _heads IS NOT NULL THEN
    PERFORM @schema@.wake(_queue_id, _heads);
  END IF;
  RETURN coalesce(cardinality(_heads), 0);
END
$$;
REVOKE ALL ON FUNCTION @schema@.leave_places FROM PUBLIC;

-- Notes that a process waits for a place of a queue (_tenant = '') or a tenant, and which job it would take, so that others leave
-- it one (see leave_places): a row for each time that it asks, but no more than one in 50 ms. The former one goes, and is not
-- updated: what an old snapshot keeps of it lies further back than leave_places looks.
--
-- For take_within_limits, which has the lock, and whose settings make the lookups probes. What another claim has noted is no later
-- than `_now`, unless the server's clock was set back: that doesn't count. Two lanes of one claim are one turn.
CREATE OR REPLACE FUNCTION @schema@.note_turn(
  _queue_id integer, _tenant text, _process_id integer, _shard integer, _lane smallint, _perform_in timestamptz, _now timestamptz
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  _former record;
BEGIN
  SELECT t.seen_at, t.since INTO _former FROM @schema@.turns t
  WHERE t.queue_id = _queue_id AND t.tenant = _tenant COLLATE "C" AND t.seen_at > _now - interval '1 s' AND t.seen_at <= _now
    AND t.process_id = _process_id
  ORDER BY t.seen_at DESC LIMIT 1;
  IF FOUND THEN
    IF _former.seen_at >= _now - interval '50 ms' THEN
      RETURN;
    END IF;
    DELETE FROM @schema@.turns t
    WHERE t.queue_id = _queue_id AND t.tenant = _tenant COLLATE "C" AND t.seen_at = _former.seen_at AND t.process_id = _process_id;
  END IF;
  INSERT INTO @schema@.turns (queue_id, tenant, process_id, shard, lane, perform_in, since, seen_at)
  VALUES (_queue_id, _tenant, _process_id, _shard, _lane, _perform_in, coalesce(_former.since, _now), _now)
  ON CONFLICT DO NOTHING;
END
$$;
REVOKE ALL ON FUNCTION @schema@.note_turn FROM PUBLIC;

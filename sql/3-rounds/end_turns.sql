-- A process has got places, so it's not among those that wait for one any more (see note_turn). Of its rows, that of the last second
-- is all that counts: others are left to trim_limits, since dead ones lie among them.
CREATE OR REPLACE FUNCTION @schema@.end_turns(_queue_id integer, _tenants text[], _process_id integer, _now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  _tids tid[];
BEGIN
  SELECT array_agg(w.tid) INTO _tids
  FROM (SELECT DISTINCT e.tenant COLLATE "C" AS tenant FROM unnest(_tenants) AS e(tenant)) d
  CROSS JOIN LATERAL (
    SELECT t.ctid AS tid FROM @schema@.turns t
    WHERE t.queue_id = _queue_id AND t.tenant = d.tenant AND t.seen_at > _now - interval '1 s' AND t.process_id = _process_id
    OFFSET 0
  ) w;
  IF _tids IS NOT NULL THEN
    DELETE FROM @schema@.turns t WHERE t.queue_id + 0 = _queue_id AND t.ctid = ANY (_tids);
  END IF;
END
$$;
REVOKE ALL ON FUNCTION @schema@.end_turns FROM PUBLIC;

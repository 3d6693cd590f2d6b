-- Keeps fences growing if the server's past was cut off: after a failover to a replica that lacked some of it, a
-- recovery to a point in time, or a restore into another cluster. The sequence then hands out again what handlers have
-- shown to outside systems, and those would refuse valid handlers, or take late ones for valid.
--
-- Each such event gives the server another timeline, or it is another system. If that differs from what was noted,
-- fences continue at a later multiple of 2^32: one further for each timeline since, so that it is a new one even if the
-- server in between, and what it noted, are lost too. 2^53, above which JavaScript counts wrong, leaves room for two
-- million. The numbers of processes continue a thousand higher. Otherwise a process that registers could get the number
-- of one that lives and whose registration was lost.
--
-- A session stays on its server's timeline as long as it lasts: a server gets another one before it takes writes. So
-- the timeline is checked once in each session, before its first claim, and before a process registers. A session that
-- comes second, while another one raises the numbers, waits for that one and finds it done: no session draws a number
-- of the new timeline before.
--
-- If the server does not tell its timeline (some managed ones don't, and a replica doesn't), nothing is done. It runs
-- with its owner's rights, since a worker must not be able to set a sequence.
CREATE OR REPLACE FUNCTION @schema@.note_timeline() RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _system bigint;
  _timeline integer;
  _noted record;
BEGIN
  BEGIN
    SELECT c.system_identifier, ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer
    INTO _system, _timeline FROM pg_control_system() c;
  EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported OR object_not_in_prerequisite_state THEN
    RETURN;
  END;
  SELECT t.system, t.timeline INTO _noted FROM @schema@.timeline t;
  IF NOT FOUND THEN
    INSERT INTO @schema@.timeline (system, timeline) VALUES (_system, _timeline) ON CONFLICT DO NOTHING;
    RETURN;
  END IF;
  IF (_noted.system, _noted.timeline) = (_system, _timeline) THEN
    RETURN;
  END IF;
  SELECT t.system, t.timeline INTO _noted FROM @schema@.timeline t FOR UPDATE;
  IF (_noted.system, _noted.timeline) = (_system, _timeline) THEN
    RETURN;
  END IF;
  PERFORM setval('@schema@.fences', (
    (s.last_value >> 32) + CASE WHEN _noted.system = _system THEN greatest(_timeline - _noted.timeline, 1) ELSE 1 END
  ) << 32)
  FROM @schema@.fences s;
  PERFORM setval('@schema@.processes_process_id_seq', s.last_value + 1000) FROM @schema@.processes_process_id_seq s;
  UPDATE @schema@.timeline SET system = _system, timeline = _timeline;
END
$$;

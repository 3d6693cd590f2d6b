-- How many rounds of a queue (_tenant = '') or a tenant have begun within the window of a rate { jobs, per }. The window slides.
-- Starts are noted by hundredths of it, as of the end of theirs: a start counts for up to a hundredth longer, or a tenth of a
-- second (see rate_window). The caller has the lock of the queue's limits.
--
-- Each row has the total of all starts up to then (see note_starts). So the newest row, and the newest that has left the window,
-- tell how many are in between. Each is the first that a look from its end meets, and dead ones lie behind it. What is `gone` has
-- left the window before, and never counts again.
--
-- If the server's clock was set back, starts lie in its future: all that may still count, count from now on, under a new `clock`,
-- as what lies in the future would be met first.
CREATE OR REPLACE FUNCTION @schema@.started(_queue_id integer, _tenant text, _rate jsonb, _now timestamptz) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  _per constant double precision := _rate->>'per';
  _newest record;
  _gone bigint;
BEGIN
  SELECT s.clock, s.at, s.total, s.gone INTO _newest FROM @schema@.starts s
  WHERE s.queue_id = _queue_id AND s.tenant = _tenant COLLATE "C" ORDER BY s.clock DESC, s.at DESC, s.total DESC LIMIT 1;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  _gone := greatest(_newest.gone, @schema@.starts_until(_queue_id, _tenant, _newest.clock, _now - @schema@.rate_window(_per)));
  IF _newest.at > _now + _per / 50 * interval '1 s' THEN
    _gone := greatest(_gone, _newest.total - (_rate->>'jobs')::integer);
    INSERT INTO @schema@.starts (queue_id, tenant, clock, at, total, gone)
    VALUES (_queue_id, _tenant, _newest.clock + 1, _now, _newest.total, _gone);
  END IF;
  RETURN _newest.total - _gone;
END
$$;
REVOKE ALL ON FUNCTION @schema@.started FROM PUBLIC;

-- When the next start leaves the window of a rate that is reached, so that another round may begin (see started). If the claim
-- that asks has itself taken what was free, that is when the oldest leaves.
--
-- It's the first hundredth of the window after which more have begun than may have left. To read them one by one would take a
-- hundred lookups: this halves the window until it's found.
CREATE OR REPLACE FUNCTION @schema@.next_start(_queue_id integer, _tenant text, _rate jsonb, _now timestamptz) RETURNS timestamptz
LANGUAGE plpgsql AS $$
DECLARE
  _per constant double precision := _rate->>'per';
  _window constant interval := @schema@.rate_window(_per);
  _newest record;
  _leaving bigint;
  _before timestamptz := _now - _window;
  _until timestamptz;
  _middle timestamptz;
  _found record;
BEGIN
  SELECT s.clock, s.at, s.total, s.gone INTO _newest FROM @schema@.starts s
  WHERE s.queue_id = _queue_id AND s.tenant = _tenant COLLATE "C" ORDER BY s.clock DESC, s.at DESC, s.total DESC LIMIT 1;
  IF NOT FOUND OR _newest.at <= _before THEN
    RETURN _now + _window;
  END IF;
  _leaving := greatest(
    _newest.total - (_rate->>'jobs')::integer, _newest.gone, @schema@.starts_until(_queue_id, _tenant, _newest.clock, _before)
  );
  _until := _newest.at;
  WHILE _until - _before > _per / 200 * interval '1 s' LOOP
    _middle := _before + (_until - _before) / 2;
    SELECT s.at, s.total INTO _found FROM @schema@.starts s
    WHERE s.queue_id = _queue_id AND s.tenant = _tenant COLLATE "C" AND s.clock = _newest.clock AND s.at <= _middle
    ORDER BY s.at DESC, s.total DESC LIMIT 1;
    IF FOUND AND _found.total > _leaving THEN
      _until := _found.at;
    ELSE
      _before := _middle;
    END IF;
  END LOOP;
  RETURN _until + _window;
END
$$;
REVOKE ALL ON FUNCTION @schema@.next_start FROM PUBLIC;

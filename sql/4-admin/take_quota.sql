-- Takes up to `_wanted` of the requests that a subject may make within a window of `_per` seconds, and says how many it got, when
-- the window began, and in how many seconds it ends. The window begins with the first request, and there are `_most` requests in it. A window that lies in
-- the future, since the server's clock was set back, is over.
--
-- A row for each window, read from the latest one on: were one row updated for ever, each look would read all of its versions as
-- long as an old snapshot is held. Within a window there are no more updates than requests.
-- Two sessions that both saw no window would give out twice as much, so one waits for the other. The lock comes in a statement
-- of its own: whoever waited for it sees what the first has committed.
--
-- It runs with its owner's rights: who serves an API can count the requests of a token that it was shown, and nothing else.
CREATE OR REPLACE FUNCTION @schema@.take_quota(
  _subject bytea, _most bigint, _per bigint, _wanted bigint,
  OUT granted bigint, OUT began bigint, OUT ends_in double precision
)
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
@lookups@
AS $$
DECLARE
  _now timestamptz;
  _begins_at timestamptz;
  _used bigint;
BEGIN
  PERFORM pg_advisory_xact_lock('@schema@.request_windows'::regclass::oid::integer, hashtext(encode(_subject, 'hex')));
  _now := clock_timestamp();
  SELECT w.begins_at, w.used INTO _begins_at, _used FROM @schema@.request_windows w
  WHERE w.subject = _subject ORDER BY w.begins_at DESC LIMIT 1;
  IF NOT FOUND OR _begins_at > _now OR _begins_at <= _now - _per * interval '1 second' THEN
    DELETE FROM @schema@.request_windows w WHERE w.subject = _subject AND w.begins_at IN (
      SELECT o.begins_at FROM @schema@.request_windows o WHERE o.subject = _subject ORDER BY o.begins_at DESC LIMIT 2
    );
    _begins_at := _now;
    granted := least(_wanted, _most);
    INSERT INTO @schema@.request_windows (subject, begins_at, used) VALUES (_subject, _now, granted);
  ELSE
    granted := greatest(least(_wanted, _most - _used), 0);
    IF granted > 0 THEN
      UPDATE @schema@.request_windows w SET used = w.used + granted WHERE w.subject = _subject AND w.begins_at = _begins_at;
    END IF;
  END IF;
  began := @schema@.micros(_begins_at);
  ends_in := extract(epoch FROM _begins_at + _per * interval '1 second' - _now);
END
$$;
REVOKE ALL ON FUNCTION @schema@.take_quota FROM PUBLIC;

-- Takes up to `_wanted` of the requests that a subject may make within a window of `_per` seconds, and says how many it got, and
-- when the window began. The window begins with the first request, and there are `_most` requests in it. A window that lies in
-- the future, since the server's clock was set back, is over.
--
-- A row for each window, read from the latest one on: were one row updated for ever, each look would read all of its versions as
-- long as an old snapshot is held. Within a window there are no more updates than requests.
-- Two sessions that both saw no window would give out twice as much, so one waits for the other. The lock comes in a statement
-- of its own: whoever waited for it sees what the first has committed.
CREATE OR REPLACE FUNCTION @schema@.take_quota(
  _subject bytea, _most bigint, _per bigint, _wanted bigint, OUT granted bigint, OUT begins_at timestamptz
)
LANGUAGE plpgsql
@lookups@
AS $$
#variable_conflict use_column
DECLARE
  _now timestamptz;
  _used bigint;
BEGIN
  PERFORM pg_advisory_xact_lock('@schema@.lmstfy_windows'::regclass::oid::integer, hashtext(encode(_subject, 'hex')));
  _now := clock_timestamp();
  SELECT w.begins_at, w.used INTO begins_at, _used FROM @schema@.lmstfy_windows w
  WHERE w.subject = _subject ORDER BY w.begins_at DESC LIMIT 1;
  IF NOT FOUND OR begins_at > _now OR begins_at <= _now - _per * interval '1 second' THEN
    DELETE FROM @schema@.lmstfy_windows w WHERE w.subject = _subject AND w.begins_at IN (
      SELECT o.begins_at FROM @schema@.lmstfy_windows o WHERE o.subject = _subject ORDER BY o.begins_at DESC LIMIT 2
    );
    begins_at := _now;
    granted := least(_wanted, _most);
    INSERT INTO @schema@.lmstfy_windows (subject, begins_at, used) VALUES (_subject, _now, granted);
    RETURN;
  END IF;
  granted := greatest(least(_wanted, _most - _used), 0);
  IF granted > 0 THEN
    UPDATE @schema@.lmstfy_windows w SET used = w.used + granted WHERE w.subject = _subject AND w.begins_at = take_quota.begins_at;
  END IF;
END
$$;

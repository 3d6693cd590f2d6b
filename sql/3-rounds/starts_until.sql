-- How many rounds of a queue (_tenant = '') or a tenant have begun until then, ever; NULL: none that is known (see started).
CREATE OR REPLACE FUNCTION @schema@.starts_until(_queue_id integer, _tenant text, _clock integer, _at timestamptz) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
  RETURN (
    SELECT s.total FROM @schema@.starts s
    WHERE s.queue_id = _queue_id AND s.tenant = _tenant COLLATE "C" AND s.clock = _clock AND s.at <= _at
    ORDER BY s.at DESC, s.total DESC LIMIT 1
  );
END
$$;
REVOKE ALL ON FUNCTION @schema@.starts_until FROM PUBLIC;

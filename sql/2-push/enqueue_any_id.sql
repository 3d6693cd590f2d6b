-- enqueue for ids of other types than text, such as bigint and uuid: their text is the id.
--   SELECT @schema@.enqueue('orders', 17, '{"status": "paid"}');
-- Text, and what has no type, such as a literal or a parameter of most drivers, goes to enqueue itself.
--
-- It runs with its caller's rights, since the caller may have made the type, and with it what the cast to text does. It is
-- a single SELECT without settings, so the planner puts the call of enqueue in its place: it costs nothing.
CREATE OR REPLACE FUNCTION @schema@.enqueue(
  queue text,
  id anynonarray,
  payload jsonb DEFAULT '""',
  score double precision DEFAULT NULL,
  perform_in timestamptz DEFAULT NULL,
  lane integer DEFAULT NULL,
  headers jsonb DEFAULT NULL,
  tenant text DEFAULT NULL,
  expires_in timestamptz DEFAULT NULL
) RETURNS boolean
LANGUAGE sql AS $$
  SELECT @schema@.enqueue(queue, id::pg_catalog.text, payload, score, perform_in, lane, headers, tenant, expires_in)
$$;
REVOKE ALL ON FUNCTION @schema@.enqueue(text, anynonarray, jsonb, double precision, timestamptz, integer, jsonb, text, timestamptz) FROM PUBLIC;
-- A third function of this name could make calls ambiguous.
DO $alone$
BEGIN
  IF (SELECT count(*) > 2 FROM pg_proc p WHERE p.pronamespace = '@schema@'::regnamespace AND p.proname = 'enqueue') THEN
    RAISE EXCEPTION 'it has a function enqueue that is not of this release' USING ERRCODE = 'ambiguous_function';
  END IF;
END
$alone$;

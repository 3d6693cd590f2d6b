-- Pushes one job like enqueue, and returns which round will take its payload: text to ask `result` with, once this transaction
-- has committed.
--   SELECT @schema@.enqueue_for_result('sums', 'sum-1', '{"of": [1, 2]}');
CREATE OR REPLACE FUNCTION @schema@.enqueue_for_result(
  queue text,
  id text,
  payload jsonb DEFAULT '""',
  score double precision DEFAULT NULL,
  perform_in timestamptz DEFAULT NULL,
  lane integer DEFAULT NULL,
  headers jsonb DEFAULT NULL,
  tenant text DEFAULT NULL,
  expires_in timestamptz DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM @schema@.enqueue(queue, id, payload, score, perform_in, lane, headers, tenant, expires_in);
  RETURN @schema@.round_of(queue, id, coalesce(payload, '""'));
END
$$;
REVOKE ALL ON FUNCTION @schema@.enqueue_for_result FROM PUBLIC;

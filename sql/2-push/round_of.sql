-- Which round will take a payload that this transaction has just pushed, as text for `result`. The push holds the job's row until
-- the transaction ends, so its fence is still the one that the payload went under: the first claim with a higher one takes it.
-- The text also says which payload it is, by a part of its digest, and since when it is there.
CREATE OR REPLACE FUNCTION @schema@.round_of(queue text, id text, payload jsonb) RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
@lookups@ SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
  _queue ALIAS FOR queue;
  _id ALIAS FOR id;
  _payload ALIAS FOR payload;
BEGIN
  RETURN (
    SELECT concat_ws('.', j.fence, @schema@.micros(clock_timestamp()), encode(substr(@schema@.digest_of(_payload), 1, 8), 'hex'))
    FROM @schema@.queues q CROSS JOIN LATERAL (
      SELECT t.fence FROM @schema@.jobs t
      WHERE t.queue_id = q.queue_id AND t.id >= _id COLLATE "C" AND t.id <= _id COLLATE "C" ORDER BY t.id LIMIT 1
    ) j
    WHERE q.name = _queue
  );
END
$$;
REVOKE ALL ON FUNCTION @schema@.round_of FROM PUBLIC;

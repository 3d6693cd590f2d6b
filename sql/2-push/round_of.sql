-- Which round will take a payload that this transaction has just pushed, as text for `result`. The push holds the job's row until
-- the transaction ends, and a claim draws its fence when it has locked the row. So every round of the id that has begun has a
-- fence up to the last one that was drawn, and the first claim with a higher one takes the payload. The row's own fence would not
-- do: a push draws that before it locks anything. If a round of the id then begins and ends while the push waits for the row, the
-- new row has a lower fence than that round, whose result knows nothing of the payload.
-- The text also says which payload it is, by a part of its digest, and since when it is there. The queue and id play no part.
CREATE OR REPLACE FUNCTION @schema@.round_of(queue text, id text, payload jsonb) RETURNS text
LANGUAGE sql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  SELECT concat_ws('.', f.last_value, @schema@.micros(clock_timestamp()), encode(substr(@schema@.digest_of(payload), 1, 8), 'hex'))
  FROM @schema@.fences f
$$;
REVOKE ALL ON FUNCTION @schema@.round_of FROM PUBLIC;

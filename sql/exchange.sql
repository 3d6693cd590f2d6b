-- What a worker process says and asks in one call and one commit: rounds of any queue that succeeded, and lanes it
-- would take from. Returns the exceptions of `complete`, with `outcome`, and what `claim` returns for the lane at
-- each `place`. Completions come first, so that what waits again may be taken in the same call.
--
-- No deadlock comes of doing both: neither waits for a row.
CREATE OR REPLACE FUNCTION @schema@.exchange(
  _process_id integer,
  _done_queue_ids integer[],
  _done_ids text[],
  _done_fences bigint[],
  _cut_scores double precision[],
  _cut_seqs bigint[],
  _queue_ids integer[],
  _shards integer[],
  _lanes smallint[],
  _counts integer[],
  _max_payloads integer[],
  _after bigint[],
  _after_ids text[]
) RETURNS TABLE (
  place integer, id text, fence bigint, perform_in bigint, retry_count integer, crashes smallint, rescued boolean,
  error text, payload jsonb, score double precision, seq bigint, cut boolean, outcome text, queue_id integer,
  shard integer, lane smallint
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
  _done record;
BEGIN
  IF cardinality(_done_ids) > 0 THEN
    FOR _done IN
      SELECT d.queue_id, array_agg(d.id) AS ids, array_agg(d.fence) AS fences,
        array_agg(d.cut_score) AS cut_scores, array_agg(d.cut_seq) AS cut_seqs
      FROM unnest(_done_queue_ids, _done_ids, _done_fences, _cut_scores, _cut_seqs)
        AS d(queue_id, id, fence, cut_score, cut_seq)
      GROUP BY d.queue_id
    LOOP
      RETURN QUERY
      SELECT NULL::integer, c.id, NULL::bigint, c.perform_in, NULL::integer, NULL::smallint, NULL::boolean,
        NULL, NULL::jsonb, NULL::double precision, NULL::bigint, NULL::boolean, c.outcome, _done.queue_id,
        c.shard, c.lane
      FROM @schema@.complete(_done.queue_id, _process_id, _done.ids, _done.fences, _done.cut_scores, _done.cut_seqs, false) c;
    END LOOP;
  END IF;

  IF cardinality(_queue_ids) > 0 THEN
    RETURN QUERY
    SELECT c.*, NULL, NULL::integer, NULL::integer, NULL::smallint
    FROM @schema@.claim(
      _process_id, _queue_ids, _shards, _lanes, _counts, _max_payloads, _after, _after_ids
    ) c;
  END IF;
END
$$;

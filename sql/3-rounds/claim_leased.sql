-- claim, for a consumer: what it takes is claimed by process 0, under a lease of `_lease` seconds that any process may extend,
-- and that ends by itself (see end_leases). `_max_retry_counts`: how often a job of each lane is tried again before its lowest
-- payload dies, where a lease ends.
--
-- The lease begins after the rows are locked, so it's no shorter than asked for. If the server's clock is set, leases end
-- earlier or later by as much: unlike a worker's, they are nobody's who could watch them by a clock of their own.
CREATE OR REPLACE FUNCTION @schema@.claim_leased(
  _lease double precision,
  _max_retry_counts integer[],
  _queue_ids integer[],
  _shards integer[],
  _lanes smallint[],
  _counts integer[],
  _max_payloads integer[],
  _max_bytes integer[],
  _after bigint[],
  _after_ids text[],
  _budget bigint
) RETURNS TABLE (
  place integer, id text, fence bigint, perform_in bigint, retry_count integer, crashes smallint, rescued boolean,
  error text, payload text, headers text, score text, seq bigint, cut boolean, passed boolean, tenant text,
  expires_in bigint, expired integer
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH claimed AS MATERIALIZED (
    SELECT c.* FROM @schema@.claim(
      0, _queue_ids, _shards, _lanes, _counts, _max_payloads, _max_bytes, _after, _after_ids, _budget
    ) WITH ORDINALITY c
  ), leased AS (
    INSERT INTO @schema@.leases (ends_at, fence, queue_id, max_retry_count, ids)
    SELECT clock_timestamp() + make_interval(secs => _lease), c.fence, _queue_ids[c.place], _max_retry_counts[c.place], array_agg(c.id)
    FROM claimed c WHERE c.id IS NOT NULL GROUP BY c.fence, _queue_ids[c.place], _max_retry_counts[c.place]
  )
  SELECT c.place, c.id, c.fence, c.perform_in, c.retry_count, c.crashes, c.rescued, c.error, c.payload, c.headers, c.score, c.seq,
    c.cut, c.passed, c.tenant, c.expires_in, c.expired
  FROM claimed c ORDER BY c.ordinality;
END
$$;

-- claim, for a consumer: what it takes is claimed by process 0, under a lease of `_lease` seconds that any process may extend,
-- and that ends by itself (see end_leases). `_max_retry_counts`: how often a job of each lane is tried again before its lowest
-- payload dies, where a lease ends. If a job's payload has a header `_tries_header`, with a number from 1, the job is handed over
-- so often instead.
--
-- The lease begins after the rows are locked, so it's no shorter than asked for. If the server's clock is set, leases end
-- earlier or later by as much: unlike a worker's, they are nobody's who could watch them by a clock of their own.
DROP FUNCTION IF EXISTS @schema@.claim_leased(
  double precision, integer[], integer[], integer[], smallint[], integer[], integer[], integer[], bigint[], text[], bigint
);
DROP FUNCTION IF EXISTS @schema@.claim_leased(
  double precision, integer[], integer[], integer[], smallint[], integer[], integer[], integer[], bigint[], text[], bigint, text
);
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
  _budget bigint,
  _tries_header text DEFAULT NULL,
  _spots jsonb DEFAULT NULL
) RETURNS TABLE (
  place integer, id text, fence bigint, perform_in bigint, retry_count integer, crashes smallint, rescued boolean,
  error text, payload text, headers text, score text, seq bigint, cut boolean, passed boolean, tenant text,
  expires_in bigint, expired integer
)
LANGUAGE plpgsql
@lookups@ SET enable_sort = off
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH claimed AS MATERIALIZED (
    SELECT c.* FROM @schema@.claim(
      0, _queue_ids, _shards, _lanes, _counts, _max_payloads, _max_bytes, _after, _after_ids, _budget, _spots
    ) WITH ORDINALITY c
  ), leased AS (
    INSERT INTO @schema@.leases (ends_at, fence, queue_id, max_retry_count, ids)
    SELECT clock_timestamp() + make_interval(secs => _lease), c.fence, _queue_ids[c.place], coalesce(t.tries - 1, _max_retry_counts[c.place]),
      array_agg(c.id)
    FROM claimed c LEFT JOIN LATERAL (
      SELECT @schema@.tries_of(_queue_ids[c.place], c.id, _tries_header) AS tries WHERE _tries_header IS NOT NULL
    ) t ON true
    WHERE c.id IS NOT NULL GROUP BY 2, 3, 4
  )
  SELECT c.place, c.id, c.fence, c.perform_in, c.retry_count, c.crashes, c.rescued, c.error, c.payload, c.headers, c.score, c.seq,
    c.cut, c.passed, c.tenant, c.expires_in, c.expired
  FROM claimed c ORDER BY c.ordinality;
END
$$;

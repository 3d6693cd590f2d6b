-- Ends rounds whose payloads no retry can help: all that a round took go to the morgue with its error, and the job goes on
-- as after a success (complete). They die in the order in which the handler got them: that is the order in which a requeue
-- brings back those of one score. If maxPayloads or maxBytes left some to the next round, they are those up to the last
-- one taken (`_cut_*`), with all equal ones. What had expired when it was claimed has no part in it, and goes with the completion.
-- Only rounds that this call holds are completed: what it could not bury, because the claim was lost or is locked, stays.
-- Rows of the morgue are locked in key order, as everywhere.
-- (Sorts are off for payloads_below: see there.)
CREATE OR REPLACE FUNCTION @schema@.discard(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _errors text[],
  _cut_scores double precision[],
  _cut_seqs bigint[],
  _wait boolean
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
@lookups@ SET enable_sort = off SET enable_incremental_sort = off
AS $$
#variable_conflict use_column
DECLARE
  _places integer[];
  _died_at constant timestamptz := clock_timestamp();
BEGIN
  SELECT array_agg(h.place) INTO _places FROM @schema@.lock_claims(_queue_ids, _process_id, _ids, _fences, _wait) h;

  INSERT INTO @schema@.morgue AS m (queue_id, shard, job_id, digest, score, payload, headers, error, attempts, died_at, tenant, pushed_from, pushed_before)
  SELECT j.queue_id, j.shard, j.id, f.digest, f.score, f.payload, f.headers, _errors[h.place], j.attempts,
    _died_at + row_number() OVER (PARTITION BY h.place ORDER BY f.score, f.seq) * interval '1 microsecond', j.tenant, NULL, _fences[h.place]
  FROM unnest(_places) AS h(place)
  CROSS JOIN LATERAL (
    SELECT t.queue_id, t.id, t.shard, t.tenant, t.claimed_at,
      @schema@.with_attempt(t.attempts, t.error, 'failure', t.retry_count + 1) AS attempts
    FROM @schema@.jobs t
    WHERE t.queue_id = _queue_ids[h.place] AND t.id >= _ids[h.place] COLLATE "C" AND t.id <= _ids[h.place] COLLATE "C"
    ORDER BY t.id LIMIT 1
  ) j
  CROSS JOIN LATERAL (
    SELECT DISTINCT ON (p.digest) p.digest, p.score, p.seq, p.payload,
      first_value(p.headers) OVER (PARTITION BY p.digest ORDER BY p.fence) AS headers
    FROM @schema@.payloads_below(_queue_ids[h.place], _ids[h.place], _fences[h.place]) p
    WHERE p.expires_in IS NULL OR p.expires_in > j.claimed_at
    ORDER BY p.digest, p.score, p.seq
  ) f
  WHERE _cut_seqs[h.place] IS NULL OR (f.score, f.seq) <= (_cut_scores[h.place], _cut_seqs[h.place])
  ORDER BY j.queue_id, j.id, f.digest
  ON CONFLICT (queue_id, job_id, digest) DO UPDATE SET
    score = least(m.score, excluded.score), error = excluded.error, attempts = excluded.attempts, died_at = excluded.died_at,
    tenant = excluded.tenant, pushed_from = excluded.pushed_from, pushed_before = excluded.pushed_before;

  IF _places IS NOT NULL THEN
    RETURN QUERY SELECT * FROM @schema@.complete(
      ARRAY(SELECT _queue_ids[p] FROM unnest(_places) p), _process_id,
      ARRAY(SELECT _ids[p] FROM unnest(_places) p), ARRAY(SELECT _fences[p] FROM unnest(_places) p),
      ARRAY(SELECT _cut_scores[p] FROM unnest(_places) p), ARRAY(SELECT _cut_seqs[p] FROM unnest(_places) p), _wait
    );
  END IF;
  IF cardinality(_places) IS DISTINCT FROM cardinality(_ids) THEN
    RETURN QUERY SELECT * FROM @schema@.unsettled(_queue_ids, _process_id, _ids, _fences, _places);
  END IF;
END
$$;

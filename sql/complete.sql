-- Ends rounds that succeeded: their payloads go, and the job too, unless something was pushed meanwhile: then
-- the next round waits. Returns the exceptions alone: jobs that wait `again`, and those `held` or `lost`.
--
-- The payloads to delete are those below the fence: what the claim read, and nothing newer. Of a round that
-- took no more than maxPayloads, they are those up to the last one taken (`_cut_*`), with all equal ones.
-- Whether another round follows is read from the locked job row, not from the payloads: what a producer
-- commits after this statement's snapshot would not be seen there.
CREATE OR REPLACE FUNCTION @schema@.complete(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _cut_scores double precision[],
  _cut_seqs bigint[],
  _wait boolean
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
  _places integer[];
  _last tid[];
  _more integer[];
BEGIN
  SELECT array_agg(h.place),
    array_agg(h.tid) FILTER (WHERE NOT h.again AND _cut_seqs[h.place] IS NULL),
    array_agg(h.place) FILTER (WHERE h.again OR _cut_seqs[h.place] IS NOT NULL)
  INTO _places, _last, _more
  FROM @schema@.hold(_queue_ids, _process_id, _ids, _fences, _wait) h;

  DELETE FROM @schema@.payloads p
  USING (SELECT _queue_ids[t.place] AS queue_id, _ids[t.place] AS id, t.place FROM unnest(_places) AS t(place)) r
  WHERE p.queue_id = r.queue_id AND p.job_id = r.id AND p.fence < _fences[r.place]
    AND CASE WHEN _cut_seqs[r.place] IS NULL THEN true ELSE p.digest IN (
      SELECT t.digest FROM @schema@.payloads t
      WHERE t.queue_id = r.queue_id AND t.job_id = r.id AND t.fence < _fences[r.place]
        AND (t.score, t.seq) <= (_cut_scores[r.place], _cut_seqs[r.place])
    ) END;

  DELETE FROM @schema@.jobs j USING unnest(_last) AS r(tid) WHERE j.ctid = r.tid;

  IF _more IS NOT NULL THEN
    RETURN QUERY
    UPDATE @schema@.jobs j SET
      perform_in = CASE WHEN _cut_seqs[r.place] IS NULL THEN j.next_perform_in ELSE clock_timestamp() END,
      next_perform_in = NULL, retry_count = -1, crashes = 0, error = NULL, claimed_by = NULL, claimed_at = NULL
    FROM (SELECT _queue_ids[t.place] AS queue_id, _ids[t.place] AS id, t.place FROM unnest(_more) AS t(place)) r
    WHERE j.queue_id = r.queue_id AND j.id = r.id
    RETURNING j.queue_id, j.id, 'again', j.shard, j.lane, @schema@.micros(j.perform_in);
  END IF;
  IF cardinality(_places) IS DISTINCT FROM cardinality(_ids) THEN
    RETURN QUERY SELECT * FROM @schema@.unsettled(_queue_ids, _process_id, _ids, _fences, _places);
  END IF;
END
$$;

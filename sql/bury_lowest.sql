-- R7, for jobs whose rows the caller has locked: the payload with the lowest score below the fence goes to the
-- morgue with all equal ones below it; what is left waits with a clean count, due now. A job with nothing left
-- goes: no push can come in between, it would need the row's lock. Morgue rows are locked in key order, as
-- everywhere.
CREATE OR REPLACE FUNCTION @schema@.bury_lowest(
  _queue_ids integer[],
  _ids text[],
  _fences bigint[],
  _errors text[],
  _dying integer[]
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
  WITH lowest AS MATERIALIZED (
    SELECT l.*, d.place FROM unnest(_dying) AS d(place)
    CROSS JOIN LATERAL (
      SELECT p.queue_id, p.job_id, p.shard, p.digest, p.score, p.payload FROM @schema@.payloads p
      WHERE p.queue_id = _queue_ids[d.place] AND p.job_id = _ids[d.place] AND p.fence < _fences[d.place]
      ORDER BY p.score, p.seq LIMIT 1
    ) l
  ), gone AS (
    DELETE FROM @schema@.payloads p USING lowest l
    WHERE p.queue_id = l.queue_id AND p.job_id = l.job_id AND p.fence < _fences[l.place] AND p.digest = l.digest
  )
  INSERT INTO @schema@.morgue AS m (queue_id, shard, job_id, digest, score, payload, error, died_at)
  SELECT l.queue_id, l.shard, l.job_id, l.digest, l.score, l.payload, _errors[l.place], clock_timestamp() FROM lowest l
  ORDER BY l.queue_id, l.job_id, l.digest
  ON CONFLICT (queue_id, job_id, digest) DO UPDATE SET
    score = least(m.score, excluded.score), error = excluded.error, died_at = excluded.died_at;

  RETURN QUERY
  UPDATE @schema@.jobs j SET
    retry_count = -1, perform_in = clock_timestamp(), error = NULL,
    next_perform_in = NULL, crashes = 0, claimed_by = NULL, claimed_at = NULL
  FROM (SELECT _queue_ids[t.place] AS queue_id, _ids[t.place] AS id FROM unnest(_dying) AS t(place)) d
  WHERE j.queue_id = d.queue_id AND j.id = d.id
    AND EXISTS (SELECT FROM @schema@.payloads p WHERE p.queue_id = j.queue_id AND p.job_id = j.id)
  RETURNING j.queue_id, j.id, 'again', j.shard, j.lane, @schema@.micros(j.perform_in);

  DELETE FROM @schema@.jobs j
  USING (SELECT _queue_ids[t.place] AS queue_id, _ids[t.place] AS id FROM unnest(_dying) AS t(place)) d
  WHERE j.queue_id = d.queue_id AND j.id = d.id AND j.claimed_by IS NOT NULL;
END
$$;

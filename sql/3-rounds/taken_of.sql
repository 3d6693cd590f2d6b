-- The digests of the payloads that a round took, up to the last one (see payloads_of_round). What had expired when the round was
-- claimed is as if it were not there: a lower score of its own would make an equal one seem taken that was left behind, and the
-- completion would delete that.
-- The planner puts this into the query that calls it, whose settings apply. (For how it looks up rows, see claim.)
CREATE OR REPLACE FUNCTION @schema@.taken_of(
  _queue_id integer, _id text, _fence bigint, _cut_score double precision, _cut_seq bigint
) RETURNS TABLE (digest bytea)
LANGUAGE sql STABLE AS $$
  SELECT d.digest FROM @schema@.payloads_below(_queue_id, _id, _fence) d
  WHERE (d.score, d.seq) <= (_cut_score, _cut_seq) AND CASE
    WHEN d.expires_in IS NULL THEN true
    ELSE d.expires_in > (
      SELECT j.claimed_at FROM @schema@.jobs j
      WHERE j.queue_id = _queue_id AND j.id >= _id COLLATE "C" AND j.id <= _id COLLATE "C" ORDER BY j.id LIMIT 1
    )
  END
$$;

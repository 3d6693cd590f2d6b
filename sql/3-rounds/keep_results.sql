-- Keeps what rounds have returned, each for `_keeps` seconds, for rounds that are about to be completed in this transaction.
-- Returns the places of those that it holds, as lock_claims does: only those may be completed, since a row that was locked
-- elsewhere may become free right after. Rounds that are not ours any more leave no result (P6), nor does one that has left
-- payloads behind (`_cut_seqs`): who has pushed those waits for the round that takes the last of them.
-- A number that a restore has set back may come twice: then the last one counts.
--
-- It runs with its owner's rights, for the workers' role: that can't store anything else in the table.
CREATE OR REPLACE FUNCTION @schema@.keep_results(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _cut_seqs bigint[],
  _results jsonb[],
  _keeps double precision[],
  _wait boolean
) RETURNS integer[]
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _places integer[];
BEGIN
  SELECT array_agg(h.place) INTO _places FROM @schema@.lock_claims(_queue_ids, _process_id, _ids, _fences, _wait) h;
  INSERT INTO @schema@.results AS k (queue_id, job_id, fence, result, ended_at, keep_until)
  SELECT r.queue_id, r.id, r.fence, coalesce(r.result, 'null'), n.now, n.now + r.keep * interval '1 second'
  FROM unnest(_queue_ids, _ids, _fences, _cut_seqs, _results, _keeps)
    WITH ORDINALITY AS r(queue_id, id, fence, cut_seq, result, keep, place)
  CROSS JOIN (SELECT clock_timestamp() AS now) n
  WHERE r.place = ANY (_places) AND r.cut_seq IS NULL
  ON CONFLICT (queue_id, job_id, fence) DO UPDATE SET
    result = excluded.result, ended_at = excluded.ended_at, keep_until = excluded.keep_until;
  RETURN coalesce(_places, '{}');
END
$$;
REVOKE ALL ON FUNCTION @schema@.keep_results FROM PUBLIC;

-- Ends rounds that succeeded: deletes their payloads, and the job too, unless something was pushed meanwhile: then the
-- next round waits. Returns only the exceptions: jobs that wait `again`, and those that are `held` or `lost`.
--
-- The payloads to delete are those below the fence: what the claim read, and nothing newer. Most jobs have none but the
-- one that their row carries, as the locked row says. If maxPayloads or maxBytes left some to the next round, they are
-- those up to the last one taken (`_cut_*`; NULL if none were left), with all equal ones: a carried one that is `_spared`
-- stays. Their ctids find them: no other session moves payloads below the fence of a job whose row we have locked.
-- Whether another round follows is read from the locked job row, not from the payloads: there, this statement would not
-- see what a producer commits after its snapshot.
-- (Sorts are off for payloads_below: see there.)
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
@lookups@ SET enable_sort = off
AS $$
DECLARE
  _places integer[];
  _probed integer[];
  _owners integer[];
  _tids tid[];
  _last integer[];
  _last_tids tid[];
  _more integer[];
  _more_tids tid[];
  _spared integer[];
BEGIN
  SELECT array_agg(h.place), array_agg(h.place) FILTER (WHERE h.has_payloads),
    array_agg(h.place) FILTER (WHERE NOT h.again AND _cut_seqs[h.place] IS NULL),
    array_agg(h.tid) FILTER (WHERE NOT h.again AND _cut_seqs[h.place] IS NULL),
    array_agg(h.place) FILTER (WHERE h.again OR _cut_seqs[h.place] IS NOT NULL),
    array_agg(h.tid) FILTER (WHERE h.again OR _cut_seqs[h.place] IS NOT NULL)
  INTO _places, _probed, _last, _last_tids, _more, _more_tids
  FROM @schema@.lock_claims(_queue_ids, _process_id, _ids, _fences, _wait) h;

  IF _probed IS NOT NULL THEN
    SELECT array_agg(r.queue_id), array_agg(g.tid) INTO _owners, _tids
    FROM unnest(_queue_ids, _ids, _fences, _cut_scores, _cut_seqs)
      WITH ORDINALITY AS r(queue_id, id, fence, cut_score, cut_seq, place)
    CROSS JOIN LATERAL (
      SELECT t.ctid AS tid FROM @schema@.payloads t
      WHERE t.queue_id = r.queue_id AND t.job_id = r.id AND t.fence < r.fence
        AND CASE WHEN r.cut_seq IS NULL THEN true ELSE t.digest IN (
          SELECT d.digest FROM @schema@.taken_of(r.queue_id, r.id, r.fence, r.cut_score, r.cut_seq) d
        ) END
      OFFSET 0
    ) g
    WHERE cardinality(_probed) = cardinality(_ids) OR r.place = ANY (_probed);
  END IF;
  IF _cut_seqs IS NOT NULL THEN
    SELECT array_agg(r.place) INTO _spared
    FROM unnest(_queue_ids, _ids, _fences, _cut_scores, _cut_seqs)
      WITH ORDINALITY AS r(queue_id, id, fence, cut_score, cut_seq, place)
    CROSS JOIN LATERAL (
      SELECT c.digest FROM @schema@.payloads_below(r.queue_id, r.id, r.fence) c WHERE c.tid IS NULL AND r.cut_seq IS NOT NULL OFFSET 0
    ) c
    WHERE c.digest NOT IN (SELECT d.digest FROM @schema@.taken_of(r.queue_id, r.id, r.fence, r.cut_score, r.cut_seq) d);
  END IF;
  IF _queue_ids[1] = ALL (_queue_ids) THEN
    IF _tids IS NOT NULL THEN
      DELETE FROM @schema@.payloads p WHERE p.queue_id + 0 = _queue_ids[1] AND p.ctid = ANY (_tids);
    END IF;
    DELETE FROM @schema@.jobs j WHERE j.queue_id + 0 = _queue_ids[1] AND j.ctid = ANY (_last_tids);
  ELSE
    DELETE FROM @schema@.payloads p USING unnest(_owners, _tids) AS r(queue_id, tid)
    WHERE p.queue_id + 0 = r.queue_id AND p.ctid = r.tid;
    DELETE FROM @schema@.jobs j USING unnest(_last, _last_tids) AS r(place, tid)
    WHERE j.queue_id + 0 = _queue_ids[r.place] AND j.ctid = r.tid;
  END IF;

  IF _more IS NOT NULL THEN
    RETURN QUERY
    UPDATE @schema@.jobs j SET
      perform_in = CASE WHEN _cut_seqs[r.place] IS NULL THEN j.next_perform_in ELSE clock_timestamp() END,
      next_perform_in = NULL, retry_count = -1, crashes = 0, error = NULL, attempts = NULL, claimed_by = NULL, claimed_at = NULL,
      score = CASE WHEN r.place = ANY (_spared) THEN j.score END,
      payload = CASE WHEN r.place = ANY (_spared) THEN j.payload END,
      headers = CASE WHEN r.place = ANY (_spared) THEN j.headers END,
      expires_in = CASE WHEN r.place = ANY (_spared) THEN j.expires_in END
    FROM unnest(_more, _more_tids) AS r(place, tid)
    WHERE j.queue_id + 0 = _queue_ids[r.place] AND j.ctid = r.tid
    RETURNING j.queue_id, j.id, 'again', j.shard, j.lane, @schema@.micros(j.perform_in);
  END IF;
  IF cardinality(_places) IS DISTINCT FROM cardinality(_ids) THEN
    RETURN QUERY SELECT * FROM @schema@.unsettled(_queue_ids, _process_id, _ids, _fences, _places);
  END IF;
END
$$;

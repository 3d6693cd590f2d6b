-- As complete, and keeps what the rounds have returned (see keep_results). Rounds of consumers (process 0) end as settle_leased
-- ends them, which knows where they have left payloads behind.
CREATE OR REPLACE FUNCTION @schema@.complete_with_results(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _cut_scores double precision[],
  _cut_seqs bigint[],
  _results jsonb[],
  _keeps double precision[],
  _wait boolean
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
@lookups@
AS $$
DECLARE
  _places integer[];
  _our_queue_ids integer[];
  _our_ids text[];
  _our_fences bigint[];
BEGIN
  IF _process_id = 0 THEN
    _cut_seqs := ARRAY(
      SELECT (
        SELECT (l.cuts->r.id->>1)::bigint FROM @schema@.leases l
        WHERE l.queue_id = r.queue_id AND l.fence = r.fence AND l.cuts ? r.id LIMIT 1
      )
      FROM unnest(_queue_ids, _ids, _fences) WITH ORDINALITY AS r(queue_id, id, fence, place)
    );
  END IF;
  _places := @schema@.keep_results(_queue_ids, _process_id, _ids, _fences, _cut_seqs, _results, _keeps, _wait);
  _our_queue_ids := ARRAY(SELECT _queue_ids[p] FROM unnest(_places) p);
  _our_ids := ARRAY(SELECT _ids[p] FROM unnest(_places) p);
  _our_fences := ARRAY(SELECT _fences[p] FROM unnest(_places) p);
  IF _process_id = 0 THEN
    RETURN QUERY SELECT s.* FROM @schema@.settle_leased('complete', _our_queue_ids, _our_ids, _our_fences, NULL, NULL, _wait) s;
  ELSE
    RETURN QUERY SELECT c.* FROM @schema@.complete(
      _our_queue_ids, _process_id, _our_ids, _our_fences,
      CASE WHEN _cut_scores IS NOT NULL THEN ARRAY(SELECT _cut_scores[p] FROM unnest(_places) p) END,
      CASE WHEN _cut_seqs IS NOT NULL THEN ARRAY(SELECT _cut_seqs[p] FROM unnest(_places) p) END, _wait
    ) c;
  END IF;
  RETURN QUERY SELECT u.* FROM @schema@.unsettled(_queue_ids, _process_id, _ids, _fences, _places) u;
END
$$;

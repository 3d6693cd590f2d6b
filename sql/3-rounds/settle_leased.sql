-- Ends rounds of consumers: complete, discard, fail_claims or release, by `_kind`, for claims of process 0. Whoever calls it need
-- know nothing but the claim: where a round has left payloads behind, its lease says which (see note_cut).
CREATE OR REPLACE FUNCTION @schema@.settle_leased(
  _kind text,
  _queue_ids integer[],
  _ids text[],
  _fences bigint[],
  _errors text[],
  _retry_ins double precision[],
  _wait boolean
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
@lookups@
AS $$
DECLARE
  _cut_scores double precision[];
  _cut_seqs bigint[];
BEGIN
  IF _kind IN ('complete', 'discard') THEN
    SELECT array_agg(c.score ORDER BY r.place), array_agg(c.seq ORDER BY r.place) INTO _cut_scores, _cut_seqs
    FROM unnest(_queue_ids, _ids, _fences) WITH ORDINALITY AS r(queue_id, id, fence, place)
    LEFT JOIN LATERAL (
      SELECT (l.cuts->r.id->>0)::double precision AS score, (l.cuts->r.id->>1)::bigint AS seq FROM @schema@.leases l
      WHERE l.queue_id = r.queue_id AND l.fence = r.fence AND l.cuts ? r.id LIMIT 1
    ) c ON true
    HAVING count(c.seq) > 0;
  END IF;
  IF _kind = 'complete' THEN
    RETURN QUERY SELECT c.* FROM @schema@.complete(_queue_ids, 0, _ids, _fences, _cut_scores, _cut_seqs, _wait) c;
  ELSIF _kind = 'discard' THEN
    RETURN QUERY SELECT d.* FROM @schema@.discard(_queue_ids, 0, _ids, _fences, _errors, _cut_scores, _cut_seqs, _wait) d;
  ELSIF _kind = 'fail' THEN
    RETURN QUERY SELECT f.* FROM @schema@.fail_claims(_queue_ids, 0, _ids, _fences, _errors, _retry_ins, NULL, _wait) f;
  ELSE
    RETURN QUERY SELECT r.* FROM @schema@.release(_queue_ids, 0, _ids, _fences, _wait) r;
  END IF;
  PERFORM @schema@.forget_leases(_queue_ids, _ids, _fences);
END
$$;

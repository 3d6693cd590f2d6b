-- Notes that a round of a consumer has left payloads of its id behind: `_score` and `_seq` are those of the last one taken. It's
-- noted before anyone is handed the round, since whoever completes it knows nothing but the claim.
CREATE OR REPLACE FUNCTION @schema@.note_cut(
  _queue_id integer, _id text, _fence bigint, _score double precision, _seq bigint
) RETURNS void
LANGUAGE sql
SET enable_seqscan = off
AS $$
  UPDATE @schema@.leases l SET cuts = coalesce(l.cuts, '{}') || jsonb_build_object(_id, jsonb_build_array(_score, _seq))
  WHERE l.queue_id = _queue_id AND l.fence = _fence AND _id = ANY (l.ids)
$$;

-- The payloads of a round that has been claimed but not handed over, just before it begins (see claim). One row at the end
-- says `lost` where the claim is no longer the process's own.
--
-- That is asked after the payloads were read: whoever takes a claim over has committed that before any payload goes, so
-- where the round is still held now, none had gone then. Nothing is locked: a producer's open transaction may hold the
-- row, and what is pushed meanwhile stands at the fence.
CREATE OR REPLACE FUNCTION @schema@.load_payloads(
  _queue_id integer,
  _process_id integer,
  _id text,
  _fence bigint,
  _max_payloads integer,
  _max_bytes integer
) RETURNS TABLE (payload text, score text, seq bigint, cut boolean, lost boolean)
LANGUAGE plpgsql
SET extra_float_digits = 1
@lookups@ SET enable_sort = off
AS $$
BEGIN
  PERFORM @schema@.require_read_committed();
  RETURN QUERY
  SELECT p.payload::text, p.score::text, p.seq, p.cut, false
  FROM @schema@.payloads_of_round(_queue_id, _id, _fence, _max_payloads, _max_bytes) p;
  PERFORM FROM @schema@.jobs j
  WHERE j.queue_id = _queue_id AND j.id >= _id COLLATE "C" AND j.id <= _id COLLATE "C"
    AND j.fence = _fence AND j.claimed_by = _process_id;
  IF NOT FOUND THEN
    RETURN QUERY SELECT NULL, NULL, NULL::bigint, false, true;
  END IF;
END
$$;

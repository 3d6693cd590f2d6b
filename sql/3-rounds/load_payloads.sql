-- The payloads of a round that has been claimed but not handed over (see claim), read just before it begins. One row at
-- the end says `lost` if the process no longer holds the claim.
--
-- That is checked after the payloads were read: a process that takes a claim over has committed that before any payload
-- is deleted. So if the round is still held now, none was deleted before the read. Nothing is locked: a producer's open
-- transaction may hold the row, and what is pushed meanwhile lies at the fence.
--
-- The settings are those of claim: payloads_of_round has none of its own, and a session keeps the plans made under those of
-- its first caller. Without sorts, ORDER BY id can come only from the primary key.
CREATE OR REPLACE FUNCTION @schema@.load_payloads(
  _queue_id integer,
  _process_id integer,
  _id text,
  _fence bigint,
  _max_payloads integer,
  _max_bytes integer
) RETURNS TABLE (payload text, headers text, score text, seq bigint, cut boolean, lost boolean, expires_in bigint, expired integer)
LANGUAGE plpgsql
SET extra_float_digits = 1
@lookups@ SET enable_sort = off
AS $$
BEGIN
  PERFORM @schema@.require_read_committed();
  RETURN QUERY
  SELECT p.payload::text, p.headers::text, p.score::text, p.seq, p.cut, false,
    @schema@.micros(p.expires_in), p.expired
  FROM @schema@.payloads_of_round(_queue_id, _id, _fence, _max_payloads, _max_bytes) p;
  PERFORM FROM @schema@.jobs j
  WHERE j.queue_id = _queue_id AND j.id >= _id COLLATE "C" AND j.id <= _id COLLATE "C"
    AND j.fence = _fence AND j.claimed_by = _process_id
  ORDER BY j.id;
  IF NOT FOUND THEN
    RETURN QUERY SELECT NULL, NULL, NULL, NULL::bigint, false, true, NULL::bigint, NULL::integer;
  END IF;
END
$$;

-- The payloads of a job from a fence on, which are those of its next round, in the form in which payloads_of returns
-- those below it. All of them lie under that one fence, so no two are equal.
CREATE OR REPLACE FUNCTION @schema@.payloads_from(_queue_id integer, _id text, _fence bigint) RETURNS jsonb
LANGUAGE sql STABLE
SET extra_float_digits = 1
AS $$
  SELECT jsonb_agg(@schema@.shown_payload(p.score, p.payload, p.headers) || @schema@.shown_expiry(p.expires_in) ORDER BY p.score, p.seq)
  FROM @schema@.payloads p
  WHERE p.queue_id = _queue_id AND p.job_id = _id COLLATE "C" AND p.fence >= _fence
$$;

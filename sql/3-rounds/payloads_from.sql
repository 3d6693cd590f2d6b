-- The payloads of a job from a fence on, those of its next round, as payloads_of gives those below it. All of them stand
-- under that one fence, so that no two are equal.
CREATE OR REPLACE FUNCTION @schema@.payloads_from(_queue_id integer, _id text, _fence bigint) RETURNS jsonb
LANGUAGE sql STABLE
SET extra_float_digits = 1
AS $$
  SELECT jsonb_agg(jsonb_build_object('score', p.score, 'payload', p.payload) ORDER BY p.score, p.seq)
  FROM @schema@.payloads p
  WHERE p.queue_id = _queue_id AND p.job_id = _id COLLATE "C" AND p.fence >= _fence
$$;

-- Lets the payloads of a round that a consumer has in work count as expired from its claim on: whether the round fails or its lease
-- ends, nobody is handed them again, and they don't die. Its holder may still settle it. Returns whether the claim was held.
--
-- 1. The row of the job is locked: so the round isn't settled meanwhile, and no other session moves payloads below its fence.
-- 2. What was pushed since the claim, and what the round has left to the next one, stays as it is (P5).
-- (For how it looks up rows, see claim.)
CREATE OR REPLACE FUNCTION @schema@.expire_leased(_queue text, _id text, _fence bigint) RETURNS boolean
LANGUAGE plpgsql
@lookups@ SET enable_sort = off SET enable_incremental_sort = off
AS $$
DECLARE
  _queue_id integer;
  _claimed_at timestamptz;
  _cut_score double precision;
  _cut_seq bigint;
  _taken bytea[];
BEGIN
  PERFORM @schema@.require_read_committed();
  SELECT q.queue_id INTO _queue_id FROM @schema@.queues q WHERE q.name = _queue;
  SELECT j.claimed_at INTO _claimed_at FROM @schema@.jobs j
  WHERE j.queue_id = _queue_id AND j.id >= _id COLLATE "C" AND j.id <= _id COLLATE "C" AND j.fence = _fence AND j.claimed_by = 0
  ORDER BY j.id FOR UPDATE;
  IF _claimed_at IS NULL THEN
    RETURN false;
  END IF;

  SELECT (l.cuts->_id->>0)::double precision, (l.cuts->_id->>1)::bigint INTO _cut_score, _cut_seq FROM @schema@.leases l
  WHERE l.queue_id = _queue_id AND l.fence = _fence AND l.cuts ? _id LIMIT 1;
  IF _cut_seq IS NOT NULL THEN
    SELECT array_agg(t.digest) INTO _taken FROM @schema@.taken_of(_queue_id, _id, _fence, _cut_score, _cut_seq) t;
  END IF;
  UPDATE @schema@.payloads p SET expires_in = least(p.expires_in, _claimed_at)
  WHERE p.queue_id = _queue_id AND p.job_id = _id COLLATE "C" AND p.fence < _fence
    AND CASE WHEN _taken IS NULL THEN true ELSE p.digest = ANY (_taken) END;
  UPDATE @schema@.jobs j SET expires_in = least(j.expires_in, _claimed_at)
  WHERE j.queue_id = _queue_id AND j.id >= _id COLLATE "C" AND j.id <= _id COLLATE "C" AND j.payload IS NOT NULL
    AND CASE WHEN _taken IS NULL THEN true ELSE @schema@.digest_of(j.payload) = ANY (_taken) END;
  RETURN true;
END
$$;

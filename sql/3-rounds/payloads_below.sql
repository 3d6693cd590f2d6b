-- The payloads of a job below a fence, as they are stored: those in the table, and the one that the job's row carries. That
-- one was pushed before all others, and counts as number 0 of fence -1: a job that a requeue has made begins with fence 0.
-- It has no `tid`. Equal ones of several rounds are not folded, and expired ones not left out.
-- The planner puts this into the query that calls it, whose settings apply. (For how it looks up rows, see claim.)
CREATE OR REPLACE FUNCTION @schema@.payloads_below(_queue_id integer, _id text, _fence bigint)
RETURNS TABLE (tid tid, digest bytea, fence bigint, score double precision, seq bigint, payload jsonb, headers jsonb, expires_in timestamptz)
LANGUAGE sql STABLE AS $$
  SELECT p.ctid, p.digest, p.fence, p.score, p.seq, p.payload, p.headers, p.expires_in FROM @schema@.payloads p
  WHERE p.queue_id = _queue_id AND p.job_id = _id COLLATE "C" AND p.fence < _fence
  UNION ALL
  (SELECT NULL::tid, @schema@.digest_of(j.payload), -1::bigint, j.score, 0::bigint, j.payload, j.headers, j.expires_in FROM @schema@.jobs j
   WHERE j.queue_id = _queue_id AND j.id >= _id COLLATE "C" AND j.id <= _id COLLATE "C" AND j.payload IS NOT NULL
   ORDER BY j.id LIMIT 1)
$$;

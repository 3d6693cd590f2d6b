-- A row per queue. `waiting` jobs are `fresh` (never failed) or `retrying`; `due` of them could start now;
-- `lag` is how long the oldest of those has been due. `dead` counts payloads, the others jobs; `processed` and
-- `failed` count rounds since the queue was made.
CREATE OR REPLACE VIEW @schema@.queue_stats AS
SELECT q.name AS queue, q.shards, q.paused_at, j.waiting, j.due, j.fresh, j.retrying, j.working,
  (SELECT count(*) FROM @schema@.morgue m WHERE m.queue_id = q.queue_id) AS dead,
  coalesce(greatest(clock_timestamp() - j.oldest, interval '0'), interval '0') AS lag,
  c.processed, c.failed
FROM @schema@.queues q
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE p.process_id IS NULL) AS waiting,
    count(*) FILTER (WHERE p.process_id IS NULL AND j.perform_in <= now.at) AS due,
    count(*) FILTER (WHERE p.process_id IS NULL AND j.retry_count < 0) AS fresh,
    count(*) FILTER (WHERE p.process_id IS NULL AND j.retry_count >= 0) AS retrying,
    count(p.process_id) AS working,
    min(j.perform_in) FILTER (WHERE p.process_id IS NULL AND j.perform_in <= now.at) AS oldest
  FROM (SELECT clock_timestamp() AS at OFFSET 0) now, @schema@.jobs j
  LEFT JOIN @schema@.processes p ON p.process_id = j.claimed_by AND p.expires_at > clock_timestamp()
  WHERE j.queue_id = q.queue_id
) j
CROSS JOIN LATERAL (
  SELECT coalesce(sum(c.processed), 0)::bigint AS processed, coalesce(sum(c.failed), 0)::bigint AS failed
  FROM @schema@.counters c WHERE c.queue_id = q.queue_id
) c;

-- A row per queue. `waiting` jobs are `fresh` (never failed) or `retrying`; `due` of them could start now;
-- `lag` is how long the oldest of those has been due. `dead` counts payloads, the others jobs; `processed` and
-- `failed` count rounds since the queue was made. Every table is read once, whatever the number of queues.
CREATE OR REPLACE VIEW @schema@.queue_stats AS
WITH counted AS (
  SELECT j.queue_id,
    count(*) FILTER (WHERE p.process_id IS NULL) AS waiting,
    count(*) FILTER (WHERE p.process_id IS NULL AND j.perform_in <= now.at) AS due,
    count(*) FILTER (WHERE p.process_id IS NULL AND j.retry_count < 0) AS fresh,
    count(*) FILTER (WHERE p.process_id IS NULL AND j.retry_count >= 0) AS retrying,
    count(p.process_id) AS working,
    min(j.perform_in) FILTER (WHERE p.process_id IS NULL AND j.perform_in <= now.at) AS oldest
  FROM (SELECT clock_timestamp() AS at OFFSET 0) now
  CROSS JOIN @schema@.jobs j
  LEFT JOIN (SELECT l.process_id FROM @schema@.processes l WHERE l.expires_at > clock_timestamp()) p
    ON p.process_id = j.claimed_by
  GROUP BY j.queue_id
), buried AS (
  SELECT m.queue_id, count(*) AS dead FROM @schema@.morgue m GROUP BY m.queue_id
), ended AS (
  SELECT c.queue_id, sum(c.processed)::bigint AS processed, sum(c.failed)::bigint AS failed
  FROM @schema@.counters c GROUP BY c.queue_id
)
SELECT q.name AS queue, q.shards, q.paused_at,
  coalesce(j.waiting, 0) AS waiting, coalesce(j.due, 0) AS due, coalesce(j.fresh, 0) AS fresh,
  coalesce(j.retrying, 0) AS retrying, coalesce(j.working, 0) AS working, coalesce(m.dead, 0) AS dead,
  coalesce(greatest(clock_timestamp() - j.oldest, interval '0'), interval '0') AS lag,
  coalesce(c.processed, 0) AS processed, coalesce(c.failed, 0) AS failed
FROM @schema@.queues q
LEFT JOIN counted j USING (queue_id)
LEFT JOIN buried m USING (queue_id)
LEFT JOIN ended c USING (queue_id);

-- A row for each queue. What waits is a job that is not in progress, or the next round of one that is: `fresh` if it
-- never failed, otherwise `retrying`. `due` is the part of it that could start now, if its id is not in progress. `lag`
-- is how long the oldest of that has been due. `dead` counts payloads, `working` jobs; `processed` and `failed` count
-- rounds since the queue was made. Every table is read once, whatever the number of queues: by several processes of the
-- server if it is large, which a join with `now` would prevent.
CREATE OR REPLACE VIEW @schema@.queue_stats AS
WITH now AS MATERIALIZED (
  SELECT clock_timestamp() AS at
), counted AS (
  SELECT e.queue_id,
    count(e.perform_in) AS waiting,
    count(*) FILTER (WHERE e.perform_in <= (SELECT n.at FROM now n)) AS due,
    count(e.perform_in) FILTER (WHERE e.working OR e.retry_count < 0) AS fresh,
    count(*) FILTER (WHERE NOT e.working AND e.retry_count >= 0) AS retrying,
    count(*) FILTER (WHERE e.working) AS working,
    min(e.perform_in) AS oldest
  FROM (
    SELECT j.queue_id, p.process_id IS NOT NULL AS working, j.retry_count,
      CASE WHEN p.process_id IS NULL THEN j.perform_in ELSE j.next_perform_in END AS perform_in
    FROM @schema@.jobs j
    LEFT JOIN @schema@.processes p ON p.process_id = j.claimed_by
  ) e
  GROUP BY e.queue_id
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

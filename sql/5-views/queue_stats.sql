-- A row for each queue. What waits is a job that is not in progress, or the next round of one that is: `fresh` if it
-- never failed, otherwise `retrying`. `due` is the part of it that could start now, if its id is not in progress. `lag`
-- is how long the oldest of that has been due. `dead` counts payloads, `working` jobs; `processed` and `failed` count
-- rounds since the queue was made, and `expired` payloads. Every table is read once, whatever the number of queues: by several processes of the
-- server if it is large, which a join with `now` would prevent. Jobs are counted by who has them first: so a million rows need
-- no lookup of a process each.
CREATE OR REPLACE VIEW @schema@.queue_stats AS
WITH now AS MATERIALIZED (
  SELECT clock_timestamp() AS at
), held AS (
  SELECT j.queue_id, j.claimed_by,
    count(*) AS jobs, count(j.next_perform_in) AS next_jobs,
    count(*) FILTER (WHERE j.perform_in <= (SELECT n.at FROM now n)) AS due,
    count(*) FILTER (WHERE j.next_perform_in <= (SELECT n.at FROM now n)) AS next_due,
    count(*) FILTER (WHERE j.retry_count < 0) AS fresh,
    min(j.perform_in) AS oldest, min(j.next_perform_in) AS next_oldest
  FROM @schema@.jobs j
  GROUP BY j.queue_id, j.claimed_by
), counted AS (
  SELECT h.queue_id,
    sum(CASE WHEN p.process_id IS NULL THEN h.jobs ELSE h.next_jobs END)::bigint AS waiting,
    sum(CASE WHEN p.process_id IS NULL THEN h.due ELSE h.next_due END)::bigint AS due,
    sum(CASE WHEN p.process_id IS NULL THEN h.fresh ELSE h.next_jobs END)::bigint AS fresh,
    sum(CASE WHEN p.process_id IS NULL THEN h.jobs - h.fresh END)::bigint AS retrying,
    sum(CASE WHEN p.process_id IS NOT NULL THEN h.jobs END)::bigint AS working,
    min(CASE WHEN p.process_id IS NULL THEN h.oldest ELSE h.next_oldest END) AS oldest
  FROM held h LEFT JOIN (SELECT o.process_id FROM @schema@.processes o UNION ALL SELECT 0) p ON p.process_id = h.claimed_by
  GROUP BY h.queue_id
), buried AS (
  SELECT m.queue_id, count(*) AS dead FROM @schema@.morgue m GROUP BY m.queue_id
), ended AS (
  SELECT c.queue_id, sum(c.processed)::bigint AS processed, sum(c.failed)::bigint AS failed, sum(c.expired)::bigint AS expired
  FROM @schema@.counters c GROUP BY c.queue_id
)
SELECT q.name AS queue, q.shards, q.paused_at,
  coalesce(j.waiting, 0) AS waiting, coalesce(j.due, 0) AS due, coalesce(j.fresh, 0) AS fresh,
  coalesce(j.retrying, 0) AS retrying, coalesce(j.working, 0) AS working, coalesce(m.dead, 0) AS dead,
  coalesce(greatest(clock_timestamp() - j.oldest, interval '0'), interval '0') AS lag,
  coalesce(c.processed, 0) AS processed, coalesce(c.failed, 0) AS failed, coalesce(c.expired, 0) AS expired
FROM @schema@.queues q
LEFT JOIN counted j USING (queue_id)
LEFT JOIN buried m USING (queue_id)
LEFT JOIN ended c USING (queue_id);

-- What waits, with its payloads in the order in which a handler will get them: jobs that are not in progress, and what
-- was pushed into jobs in progress since their round began. That is the job's next round, with a time of its own and a
-- clean count.
CREATE OR REPLACE VIEW @schema@.waiting AS
SELECT q.name AS queue, j.id, j.shard, greatest(j.lane, 0::smallint) AS lane,
  CASE WHEN w.working THEN j.next_perform_in ELSE j.perform_in END AS perform_in,
  CASE WHEN w.working THEN -1 ELSE j.retry_count END AS retry_count,
  CASE WHEN w.working THEN 0::smallint ELSE j.crashes END AS crashes,
  CASE WHEN NOT w.working THEN j.error END AS error,
  CASE
    WHEN w.working THEN @schema@.payloads_from(j.queue_id, j.id, j.fence)
    ELSE @schema@.payloads_of(j.queue_id, j.id, NULL)
  END AS payloads,
  CASE WHEN w.working THEN '[]' ELSE @schema@.shown_attempts(j.attempts, j.error) END AS attempts,
  j.tenant
FROM @schema@.jobs j
JOIN @schema@.queues q USING (queue_id)
LEFT JOIN @schema@.processes p ON p.process_id = j.claimed_by
CROSS JOIN LATERAL (SELECT p.process_id IS NOT NULL OR j.claimed_by IS NOT DISTINCT FROM 0 AS working) w
WHERE NOT w.working OR j.next_perform_in IS NOT NULL;

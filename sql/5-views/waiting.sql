-- What waits, with its payloads in the order in which a handler will get them: jobs that are not in progress, and what
-- was pushed into jobs in progress since their round began. That is the job's next round, with a time of its own and a
-- clean count.
CREATE OR REPLACE VIEW @schema@.waiting AS
SELECT q.name AS queue, j.id, j.shard, greatest(j.lane, 0::smallint) AS lane,
  CASE WHEN p.process_id IS NULL THEN j.perform_in ELSE j.next_perform_in END AS perform_in,
  CASE WHEN p.process_id IS NULL THEN j.retry_count ELSE -1 END AS retry_count,
  CASE WHEN p.process_id IS NULL THEN j.crashes ELSE 0::smallint END AS crashes,
  CASE WHEN p.process_id IS NULL THEN j.error END AS error,
  CASE
    WHEN p.process_id IS NULL THEN @schema@.payloads_of(j.queue_id, j.id, NULL)
    ELSE @schema@.payloads_from(j.queue_id, j.id, j.fence)
  END AS payloads,
  CASE WHEN p.process_id IS NULL THEN @schema@.shown_attempts(j.attempts, j.error) ELSE '[]' END AS attempts,
  j.tenant
FROM @schema@.jobs j
JOIN @schema@.queues q USING (queue_id)
LEFT JOIN (SELECT o.process_id FROM @schema@.processes o UNION ALL SELECT 0) p ON p.process_id = j.claimed_by
WHERE p.process_id IS NULL OR j.next_perform_in IS NOT NULL;

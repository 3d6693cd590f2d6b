-- Jobs that nobody works on, with their payloads in the order a handler will get them.
CREATE OR REPLACE VIEW @schema@.waiting AS
SELECT q.name AS queue, j.id, j.shard, j.lane, j.perform_in, j.retry_count, j.crashes, j.error,
  @schema@.payloads_of(j.queue_id, j.id, NULL) AS payloads
FROM @schema@.jobs j
JOIN @schema@.queues q USING (queue_id)
WHERE NOT EXISTS (
  SELECT FROM @schema@.processes p WHERE p.process_id = j.claimed_by AND p.expires_at > clock_timestamp()
);

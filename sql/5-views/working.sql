-- Jobs in progress: by which process, since when, and with the payloads of this round. Those of the next one wait. A
-- process that died counts until it is removed (see process_list).
CREATE OR REPLACE VIEW @schema@.working AS
SELECT q.name AS queue, j.id, j.shard, greatest(j.lane, 0::smallint) AS lane, j.claimed_by AS process_id, p.host, p.pid, j.claimed_at, j.fence,
  j.retry_count, j.crashes, j.next_perform_in, @schema@.payloads_of(j.queue_id, j.id, j.fence) AS payloads,
  @schema@.shown_attempts(j.attempts, j.error) AS attempts, j.tenant
FROM @schema@.jobs j
JOIN @schema@.queues q USING (queue_id)
JOIN @schema@.processes p ON p.process_id = j.claimed_by;

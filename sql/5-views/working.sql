-- Jobs in progress: by which process, since when, and with the payloads of this round. Those of the next one wait. A
-- process that died counts until it is removed (see process_list). What a consumer has claimed has process 0, and ends with its
-- lease unless it's settled before.
CREATE OR REPLACE VIEW @schema@.working AS
SELECT q.name AS queue, j.id, j.shard, greatest(j.lane, 0::smallint) AS lane, j.claimed_by AS process_id, p.host, p.pid, j.claimed_at, j.fence,
  j.retry_count, j.crashes, j.next_perform_in, @schema@.payloads_of(j.queue_id, j.id, j.fence) AS payloads,
  @schema@.shown_attempts(j.attempts, j.error) AS attempts, j.tenant,
  l.ends_at AS lease_ends_at
FROM @schema@.jobs j
JOIN @schema@.queues q USING (queue_id)
LEFT JOIN @schema@.processes p ON p.process_id = j.claimed_by
LEFT JOIN LATERAL (
  SELECT max(l.ends_at) AS ends_at FROM @schema@.leases l
  WHERE j.claimed_by = 0 AND l.queue_id = j.queue_id AND l.fence = j.fence AND j.id = ANY (l.ids)
) l ON true
WHERE p.process_id IS NOT NULL OR j.claimed_by = 0;

-- Payloads that failed too often, or were killed.
CREATE OR REPLACE VIEW @schema@.dead AS
SELECT q.name AS queue, m.job_id AS id, m.shard, m.payload, m.score, m.error, m.died_at, encode(m.digest, 'hex') AS digest, m.headers,
  @schema@.shown_attempts(m.attempts, m.error) AS attempts, m.tenant
FROM @schema@.morgue m
JOIN @schema@.queues q USING (queue_id);

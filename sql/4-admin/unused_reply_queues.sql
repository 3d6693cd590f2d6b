-- The numbers of queues, of those in _among or of all, that trim_reply_queues may delete, _most at once. The API makes them with one
-- shard. Whoever has paused one, or has given it limits or fairness, means to keep it. (For how it looks up rows, see claim.)
CREATE OR REPLACE FUNCTION @schema@.unused_reply_queues(_among integer[], _most integer) RETURNS integer[]
LANGUAGE plpgsql
@lookups@ SET enable_sort = off
AS $$
BEGIN
  RETURN ARRAY(
    WITH named AS MATERIALIZED (
      SELECT q.queue_id, q.name FROM @schema@.queues q
      WHERE (_among IS NULL OR q.queue_id = ANY (_among))
        AND @schema@.is_reply_queue(q.name) AND q.created_at < clock_timestamp() - interval '10 minutes'
        AND q.shards = 1 AND q.paused_at IS NULL AND q.limits IS NULL AND q.fairness IS NULL
    )
    SELECT n.queue_id FROM named n
    WHERE (SELECT true FROM @schema@.jobs j WHERE j.queue_id = n.queue_id ORDER BY j.queue_id, j.id LIMIT 1) IS NULL
      AND (SELECT true FROM @schema@.morgue m WHERE m.queue_id = n.queue_id ORDER BY m.queue_id, m.job_id LIMIT 1) IS NULL
      AND (SELECT true FROM @schema@.results r WHERE r.queue_id = n.queue_id ORDER BY r.queue_id, r.job_id LIMIT 1) IS NULL
      AND NOT EXISTS (SELECT FROM @schema@.processes p WHERE n.name = ANY (p.queues))
      AND NOT @schema@.has_listener(n.queue_id)
    LIMIT _most
  );
END
$$;
REVOKE ALL ON FUNCTION @schema@.unused_reply_queues FROM PUBLIC;

-- What has become of a payload, told by the `round` that enqueue_for_result has returned:
--   SELECT * FROM @schema@.result('sums', 'sum-1', '17.1767225600000000.0a1b2c3d4e5f6071');
-- `completed`: the first round that ended since, and left nothing behind, has returned `result`. `dead`: the payload lies in the
-- morgue, with `error`. `waiting` and `working`: it isn't over; `error` is that of the last try. `gone`: no result is kept, since
-- its time is over, the queue keeps none, or the job was deleted or has expired.
--
-- One statement looks at all of it, so that a job which ends meanwhile is either there or has ended. A job that waits,
-- and of which all has expired, is gone, although its row stays until remove_expired comes.
--
-- A dead payload that equals this one need not be this one. The morgue says from which pushes it came, by fences:
-- - An equal one died in the round that was in work at this push. It came from pushes before that round, and doesn't count: this
--   one waits for the next round (P5).
-- - Behind the round that took this one, an equal one was pushed and killed. It came from pushes since that round began, and doesn't
--   count.
-- - The round that took this one ended with success, and an equal one died in a later round. That came from any pushes before the
--   later round, and doesn't count, since there was a result before.
-- - This one died. That counts, whatever is pushed once more, and whatever the id's later rounds return.
-- After a restore, fences may be behind those of what died before: so it has to have died after the push, too. What died before the
-- morgue said it is told by the time alone. Of several deaths of equal payloads, the morgue knows the last one: the death of this
-- one is forgotten if an equal one dies behind another round.
-- It runs with its owner's rights, since a producer may read none of these tables.
CREATE OR REPLACE FUNCTION @schema@.result(queue text, id text, round text)
RETURNS TABLE (state text, result jsonb, error text, retry_count integer, ended_at timestamptz)
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
@lookups@ SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
  _queue ALIAS FOR queue;
  _id ALIAS FOR id;
  _parts constant text[] := regexp_match(round, '^(\d{1,18})\.(\d{1,17})\.([0-9a-f]{16})$');
  _digest bytea;
BEGIN
  IF _parts IS NULL THEN
    RAISE EXCEPTION 'not a round: %', left(round, 80) USING ERRCODE = '22023', HINT = 'Pass what enqueue_for_result has returned.';
  END IF;
  _digest := decode(_parts[3], 'hex');
  RETURN QUERY
  SELECT
    CASE
      WHEN m.died_at IS NOT NULL THEN 'dead'
      WHEN k.fence IS NOT NULL THEN 'completed'
      WHEN j.fence IS NULL THEN 'gone'
      WHEN j.claimed_by IS NOT NULL THEN 'working'
      ELSE 'waiting'
    END,
    CASE WHEN m.died_at IS NULL THEN k.result END,
    CASE WHEN m.died_at IS NOT NULL THEN m.error WHEN k.fence IS NULL THEN j.error END,
    CASE WHEN m.died_at IS NULL AND k.fence IS NULL THEN j.retry_count END,
    coalesce(m.died_at, k.ended_at)
  FROM @schema@.queues q
  LEFT JOIN LATERAL (
    SELECT t.fence, t.result, t.ended_at FROM @schema@.results t
    WHERE t.queue_id = q.queue_id AND t.job_id = _id COLLATE "C" AND t.fence > _parts[1]::bigint AND t.keep_until > clock_timestamp()
    ORDER BY t.queue_id, t.job_id, t.fence LIMIT 1
  ) k ON true
  LEFT JOIN LATERAL (
    SELECT t.error, t.died_at FROM @schema@.morgue t
    WHERE t.queue_id = q.queue_id AND t.job_id = _id COLLATE "C"
      AND t.digest BETWEEN _digest AND _digest || decode(repeat('ff', 25), 'hex')
      AND t.died_at >= @schema@.from_micros(_parts[2]::bigint)
      AND (_parts[1]::bigint BETWEEN coalesce(t.pushed_from, 0) AND t.pushed_before - 1) IS NOT FALSE
      AND (k.fence IS NULL OR coalesce(t.pushed_before < k.fence, t.died_at < k.ended_at))
    ORDER BY t.queue_id, t.job_id, t.digest LIMIT 1
  ) m ON true
  LEFT JOIN LATERAL (
    SELECT t.fence, t.claimed_by, t.error, t.retry_count FROM @schema@.jobs t
    WHERE t.queue_id = q.queue_id AND t.id >= _id COLLATE "C" AND t.id <= _id COLLATE "C"
      AND CASE
        WHEN t.claimed_by IS NOT NULL OR t.payload IS NOT NULL AND (t.expires_in <= clock_timestamp()) IS NOT TRUE THEN true
        ELSE (
          SELECT true FROM @schema@.payloads p
          WHERE p.queue_id = q.queue_id AND p.job_id = _id COLLATE "C" AND (p.expires_in <= clock_timestamp()) IS NOT TRUE LIMIT 1
        )
      END
    ORDER BY t.id LIMIT 1
  ) j ON true
  WHERE q.name = _queue;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'queue "%" does not exist', left(_queue, 255) USING ERRCODE = 'LK001';
  END IF;
END
$$;
REVOKE ALL ON FUNCTION @schema@.result FROM PUBLIC;

-- What a full look can't see: of the next `_most` jobs of each lane, from its cursor on and up to another place, those that no
-- limit is known to keep waiting. They were committed late, or their process has died. And, if the region goes on, the last job
-- that was looked at (`is_last`).
--
-- `_held` says what is known, as JSON. By tenant: the place (time and id) before its first job that waits, and the place behind which
-- others are found once those are through that are known (none: nowhere). Under '', which is nobody's name: an object whose keys are the
-- ids of what is known. A worker of the release before tells no ids, and reaches all that lies behind the first place in order. It
-- visits the place before each job that is found (`after`, `after_id`).
--
-- Dead rows between these jobs are read too, so the caller asks only for as much as it has passed within some claims.
-- Sorts are off, so that only jobs_due can give ORDER BY perform_in, id (see claim). The windows keep that order.
CREATE OR REPLACE FUNCTION @schema@.sift(
  _process_id integer,
  _queue_ids integer[],
  _shards integer[],
  _lanes smallint[],
  _after bigint[],
  _after_ids text[],
  _to bigint[],
  _to_ids text[],
  _held text[],
  _most integer
) RETURNS TABLE (place integer, is_news boolean, is_last boolean, after bigint, after_id text, perform_in bigint, id text)
LANGUAGE plpgsql
@lookups@ SET enable_sort = off SET enable_incremental_sort = off
AS $$
BEGIN
  RETURN QUERY
  SELECT e.place::integer, f.is_news, f.n = _most, f.after, f.after_id, @schema@.micros(f.perform_in), f.id
  FROM (
    SELECT u.*, u.held_text::jsonb AS held, u.held_text::jsonb->'' AS known
    FROM unnest(_queue_ids, _shards, _lanes, _after, _after_ids, _to, _to_ids, _held)
      WITH ORDINALITY AS u(queue_id, shard, lane, after, after_id, upto, upto_id, held_text, place)
    OFFSET 0
  ) e
  JOIN @schema@.queues q ON q.queue_id = e.queue_id AND q.paused_at IS NULL
  CROSS JOIN LATERAL (
    SELECT s.perform_in, s.id, s.n, s.is_news,
      lag(@schema@.micros(s.perform_in), 1, e.after) OVER () AS after, lag(s.id, 1, e.after_id) OVER () AS after_id
    FROM (
      SELECT w.perform_in, w.id, row_number() OVER () AS n,
        CASE
          WHEN w.claimed_by IS NULL THEN true
          WHEN w.claimed_by = _process_id OR w.claimed_by = 0 THEN false
          ELSE NOT EXISTS (SELECT FROM @schema@.processes p WHERE p.process_id = w.claimed_by)
        END
        AND CASE
          WHEN coalesce(w.tenant, '') = '' OR NOT e.held ? w.tenant THEN true
          ELSE (w.perform_in, w.id) <= (@schema@.from_micros((e.held->w.tenant->>0)::bigint), (e.held->w.tenant->>1) COLLATE "C")
            OR e.known IS NOT NULL AND NOT e.known ? w.id AND (
              e.held->w.tenant->>2 IS NULL
              OR (w.perform_in, w.id) <= (@schema@.from_micros((e.held->w.tenant->>2)::bigint), (e.held->w.tenant->>3) COLLATE "C")
            )
        END AS is_news
      FROM (
        SELECT j.perform_in, j.id, j.tenant, j.claimed_by FROM @schema@.jobs j
        WHERE j.queue_id = e.queue_id AND j.shard = e.shard AND j.lane = e.lane
          AND (j.perform_in, j.id) > (@schema@.from_micros(e.after), e.after_id)
          AND (j.perform_in, j.id) <= (@schema@.from_micros(e.upto), e.upto_id)
        ORDER BY j.perform_in, j.id LIMIT _most
      ) w
    ) s
  ) f
  WHERE f.is_news OR f.n = _most;
END
$$;

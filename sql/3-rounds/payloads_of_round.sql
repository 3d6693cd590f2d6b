-- The payloads below a fence that one round takes of a job: by score and push, with equal ones of several rounds folded
-- into the lowest. At most `_max_payloads` (NULL: one for each 64 bytes of `_max_bytes`, and a thousand in any case)
-- and `_max_bytes` of JSON text, headers included, but at least one. If any are left behind, a row without a payload
-- follows: `cut`.
--
-- Of equal ones, the headers of the one that was pushed first stay. That is the one with the lowest fence: while a job
-- has one fence, everything that is pushed goes under it, and no two equal ones.
--
-- What had expired when the round was claimed is as if it were not there: whether that is so must not depend on when this is
-- asked, or a completion that spares what a limit left behind would decide otherwise (see taken_of). It comes last, and is only
-- counted, in a row without a payload: `expired`. Only if there is nothing else, the lowest comes with its payload, for
-- processes of the release before, which know of no expiry.
--
-- The payload that the job's row carries was pushed before all others: it counts as number 0 of fence -1, since a job
-- that a requeue has made begins with fence 0.
--
-- All are sorted by their keys alone. After that, payloads are fetched one by one until there are enough: those behind
-- are neither carried through the sorts nor put together from where they are stored. (For how it looks up rows, see
-- claim. The settings of its callers, claim and load_payloads, apply here too. It has none of its own, because it is
-- called for each round.)
CREATE OR REPLACE FUNCTION @schema@.payloads_of_round(
  _queue_id integer,
  _id text,
  _fence bigint,
  _max_payloads integer,
  _max_bytes integer
) RETURNS TABLE (payload jsonb, headers jsonb, score double precision, seq bigint, cut boolean, expires_in timestamptz, expired integer)
LANGUAGE plpgsql
AS $$
DECLARE
  _most constant integer := coalesce(_max_payloads, greatest(_max_bytes / 64, 1000));
  _count integer := 0;
  _bytes bigint := 0;
  _carried jsonb;
  _carried_headers jsonb;
  _carried_score double precision;
  _carried_expires_in timestamptz;
  _claimed_at timestamptz;
  _has_expired boolean;
  _expired integer := 0;
BEGIN
  SELECT j.payload, j.headers, j.score, j.expires_in, j.claimed_at
  INTO _carried, _carried_headers, _carried_score, _carried_expires_in, _claimed_at FROM @schema@.jobs j
  WHERE j.queue_id = _queue_id AND j.id >= _id COLLATE "C" AND j.id <= _id COLLATE "C"
  ORDER BY j.id;
  cut := false;
  FOR payload, headers, score, seq, expires_in, _has_expired IN
    SELECT coalesce(t.payload, _carried),
      CASE f.earliest WHEN -1 THEN _carried_headers WHEN f.fence THEN t.headers ELSE e.headers END, f.score, f.seq,
      nullif(f.latest, 'infinity'), f.has_expired
    FROM (
      SELECT d.* FROM (
        SELECT DISTINCT ON (p.has_expired, p.digest) p.tid, p.digest, p.fence, min(p.fence) OVER equal AS earliest, p.score, p.seq,
          max(coalesce(p.expires_in, 'infinity')) OVER equal AS latest, p.has_expired
        FROM (
          SELECT p.ctid AS tid, p.digest, p.fence, p.score, p.seq, p.expires_in, (p.expires_in <= _claimed_at) IS TRUE AS has_expired
          FROM @schema@.payloads p
          WHERE p.queue_id = _queue_id AND p.job_id = _id AND p.fence < _fence
          UNION ALL
          SELECT NULL, @schema@.digest_of(_carried), -1, _carried_score, 0, _carried_expires_in, (_carried_expires_in <= _claimed_at) IS TRUE
          WHERE _carried IS NOT NULL
        ) p
        WINDOW equal AS (PARTITION BY p.has_expired, p.digest ORDER BY p.score, p.seq ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
        ORDER BY p.has_expired, p.digest, p.score, p.seq
      ) d
      ORDER BY d.has_expired, d.score, d.seq OFFSET 0
    ) f
    LEFT JOIN LATERAL (
      SELECT p.payload, p.headers FROM @schema@.payloads p WHERE p.queue_id + 0 = _queue_id AND p.ctid = f.tid OFFSET 0
    ) t ON true
    LEFT JOIN LATERAL (
      SELECT p.headers FROM @schema@.payloads p
      WHERE p.queue_id = _queue_id AND p.job_id = _id AND p.fence = f.earliest AND p.digest = f.digest AND f.fence <> f.earliest
      OFFSET 0
    ) e ON true
  LOOP
    IF _has_expired THEN
      IF _count > 0 THEN
        _expired := _expired + 1;
        CONTINUE;
      END IF;
      expired := 1;
    END IF;
    _count := _count + 1;
    _bytes := _bytes + octet_length(payload::text) + coalesce(octet_length(headers::text), 0);
    IF _count > 1 AND (_count > _most OR _bytes > _max_bytes) THEN
      payload := NULL;
      headers := NULL;
      score := NULL;
      seq := NULL;
      expires_in := NULL;
      cut := true;
      RETURN NEXT;
      RETURN;
    END IF;
    RETURN NEXT;
  END LOOP;
  IF _expired > 0 THEN
    payload := NULL;
    headers := NULL;
    score := NULL;
    seq := NULL;
    expires_in := NULL;
    expired := _expired;
    RETURN NEXT;
  END IF;
END
$$;

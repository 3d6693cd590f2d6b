-- The payloads that one round takes of a job below a fence: by score and push, equal ones of several rounds folded into the
-- lowest. No more than `_max_payloads` (NULL: one for each 64 bytes of `_max_bytes`, and a thousand in any case) and
-- `_max_bytes` of JSON text, but one at least. Where any are left behind, a row follows that has no payload: `cut`.
--
-- All are sorted by their keys alone, and payloads are fetched one by one after that, until it is enough: what lies behind
-- is neither carried through the sorts nor put together from where it is stored. (How it looks for rows: see claim,
-- which calls it with settings that this one goes by. Without any of its own: it is called for each round.)
CREATE OR REPLACE FUNCTION @schema@.payloads_of_round(
  _queue_id integer,
  _id text,
  _fence bigint,
  _max_payloads integer,
  _max_bytes integer
) RETURNS TABLE (payload jsonb, score double precision, seq bigint, cut boolean)
LANGUAGE plpgsql
AS $$
DECLARE
  _most constant integer := coalesce(_max_payloads, greatest(_max_bytes / 64, 1000));
  _count integer := 0;
  _bytes bigint := 0;
BEGIN
  cut := false;
  FOR payload, score, seq IN
    SELECT t.payload, f.score, f.seq
    FROM (
      SELECT d.* FROM (
        SELECT DISTINCT ON (p.digest) p.ctid AS tid, p.score, p.seq FROM @schema@.payloads p
        WHERE p.queue_id = _queue_id AND p.job_id = _id AND p.fence < _fence
        ORDER BY p.digest, p.score, p.seq
      ) d
      ORDER BY d.score, d.seq OFFSET 0
    ) f
    CROSS JOIN LATERAL (
      SELECT p.payload FROM @schema@.payloads p WHERE p.queue_id + 0 = _queue_id AND p.ctid = f.tid OFFSET 0
    ) t
  LOOP
    _count := _count + 1;
    _bytes := _bytes + octet_length(payload::text);
    IF _count > 1 AND (_count > _most OR _bytes > _max_bytes) THEN
      payload := NULL;
      score := NULL;
      seq := NULL;
      cut := true;
      RETURN NEXT;
      RETURN;
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;

-- The payloads of a job below a fence (NULL: all) as one JSON array: [{"score": ..., "payload": ..., "headers": ...},
-- ...] by score. A payload without headers has no key for them. Of equal payloads, the headers of the one that was
-- pushed first stay. The scores have all their digits, whatever the session's extra_float_digits is.
CREATE OR REPLACE FUNCTION @schema@.payloads_of(_queue_id integer, _id text, _fence bigint) RETURNS jsonb
LANGUAGE sql STABLE
SET extra_float_digits = 1
AS $$
  SELECT jsonb_agg(@schema@.shown_payload(f.score, f.payload, f.headers) ORDER BY f.score, f.seq)
  FROM (
    SELECT DISTINCT ON (p.digest) p.payload, p.score, p.seq, first_value(p.headers) OVER (PARTITION BY p.digest ORDER BY p.seq) AS headers
    FROM @schema@.payloads_below(_queue_id, _id, coalesce(_fence, 9223372036854775807)) p
    ORDER BY p.digest, p.score, p.seq
  ) f
$$;

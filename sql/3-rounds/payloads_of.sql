-- The payloads of a job below a fence (NULL: all) as one JSON array: [{"score": ..., "payload": ..., "headers": ...},
-- ...] by score. A payload without headers has no key for them. Of equal payloads, the headers of the one that was
-- pushed first stay, and the latest expiry holds; those that never expire have no key for it. The scores have all their digits, whatever the session's extra_float_digits is.
CREATE OR REPLACE FUNCTION @schema@.payloads_of(_queue_id integer, _id text, _fence bigint) RETURNS jsonb
LANGUAGE sql STABLE
SET extra_float_digits = 1
AS $$
  SELECT jsonb_agg(@schema@.shown_payload(f.score, f.payload, f.headers) || @schema@.shown_expiry(f.expires_in) ORDER BY f.score, f.seq)
  FROM (
    SELECT DISTINCT ON (p.digest) p.payload, p.score, p.seq,
      first_value(p.headers) OVER (PARTITION BY p.digest ORDER BY p.has_expired, p.seq) AS headers,
      nullif(max(coalesce(p.expires_in, 'infinity')) OVER (PARTITION BY p.digest), 'infinity') AS expires_in
    FROM (
      SELECT b.*, (b.expires_in <= clock_timestamp()) IS TRUE AS has_expired
      FROM @schema@.payloads_below(_queue_id, _id, coalesce(_fence, 9223372036854775807)) b
    ) p
    ORDER BY p.digest, p.has_expired, p.score, p.seq
  ) f
$$;

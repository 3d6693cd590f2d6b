-- Whether a push changes nothing of a job, since its row carries an equal payload with the same or a lower score (R2). A
-- job in progress takes every push for its next round (P5). The caller has locked the row until it commits, so no claim
-- comes before. Equal means the same stored text, as in digest_of: two that differ as values need no texts.
CREATE OR REPLACE FUNCTION @schema@.merges(
  _payload jsonb, _score double precision, _claimed_by integer, _carried jsonb, _carried_score double precision
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN _claimed_by IS NOT NULL OR _carried_score > _score OR _carried IS DISTINCT FROM _payload THEN false
  ELSE coalesce(_carried::text = _payload::text, false)
END;

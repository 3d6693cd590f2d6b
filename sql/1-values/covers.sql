-- Whether the payload that a job's row carries covers a push, so that this changes nothing of the job: it is equal, has the same
-- or a lower score, and expires no earlier (R2). A job in progress takes every push for its next round (P5). The caller has
-- locked the row until it commits, so no claim comes before. Equal means the same stored text, as in digest_of: two that differ
-- as values need no texts.
CREATE OR REPLACE FUNCTION @schema@.covers(
  _payload jsonb, _score double precision, _expires_in timestamptz,
  _claimed_by integer, _carried jsonb, _carried_score double precision, _carried_expires_in timestamptz
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN _claimed_by IS NOT NULL OR _carried_score > _score OR _carried_expires_in < coalesce(_expires_in, 'infinity')
    OR _carried IS DISTINCT FROM _payload
    THEN false
  ELSE coalesce(_carried::text = _payload::text, false)
END;

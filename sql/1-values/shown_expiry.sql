-- When a payload expires, as people see it: a key of its own, in ms since 1970. A payload that never expires, as most, has none.
CREATE OR REPLACE FUNCTION @schema@.shown_expiry(_expires_in timestamptz) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
  WHEN _expires_in IS NULL THEN '{}'
  ELSE jsonb_build_object('expiresIn', floor(extract(epoch FROM _expires_in) * 1000)::bigint)
END;

-- A job's failed attempts as people see them, the newest first, as a JSON array. The text of the last failure comes from the
-- row's error (see with_attempt).
CREATE OR REPLACE FUNCTION @schema@.shown_attempts(_attempts jsonb, _error text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN _attempts IS NULL THEN '[]'
  WHEN _attempts -> 0 ? 'error' THEN _attempts
  ELSE jsonb_set(_attempts, '{0,error}', to_jsonb(coalesce(_error, '')))
END;

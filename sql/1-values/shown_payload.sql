-- A payload as people see it. A payload without headers, as most are, has no key for them.
CREATE OR REPLACE FUNCTION @schema@.shown_payload(_score double precision, _payload jsonb, _headers jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
RETURN jsonb_build_object('score', _score, 'payload', _payload)
  || CASE WHEN _headers IS NULL THEN '{}' ELSE jsonb_build_object('headers', _headers) END;

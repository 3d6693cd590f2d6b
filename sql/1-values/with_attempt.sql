-- A job's failed attempts with one more, the newest first, ten at most. `_error` is that of the row before.
--
-- The text of the last failure is not among them: the row's own error has it, and storing it twice would double what a
-- first failure writes. It moves here when the next attempt comes, at most 2,000 characters of it. So ten attempts have
-- some 20,000 characters, but the same error again and again takes little more room than once: two of such a length lie
-- within the 4 KiB in which the server's compression looks for repetitions. A crash has no text, and says so with a null.
--
-- Attempts and error have one life: what replaces or clears the one does so with the other. So an attempt without a text
-- is always the first, and the text is that of the row.
--
-- (One expression, so that the planner can put it into the statement: a call of a function per failed job would cost more
-- than all of this.)
CREATE OR REPLACE FUNCTION @schema@.with_attempt(_attempts jsonb, _error text, _kind text, _retry_count integer) RETURNS jsonb
LANGUAGE sql VOLATILE
RETURN jsonb_build_array(
  jsonb_build_object('at', clock_timestamp(), 'kind', _kind, 'retry_count', _retry_count)
    || CASE WHEN _kind = 'crash' THEN '{"error": null}' ELSE '{}' END::jsonb
) || CASE
  WHEN _attempts IS NULL THEN '[]'
  WHEN _attempts -> 0 ? 'error' THEN _attempts - 9
  ELSE jsonb_set(_attempts - 9, '{0,error}', to_jsonb(
    CASE WHEN length(_error) > 2000 THEN @schema@.brief_error(_error) ELSE coalesce(_error, '') END
  ))
END;

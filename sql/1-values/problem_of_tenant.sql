-- What is wrong with the tenant of a job to be pushed, as the text after `jobs[index].`; NULL if nothing is. An empty one is
-- none.
CREATE OR REPLACE FUNCTION @schema@.problem_of_tenant(_tenant text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN octet_length(_tenant) > 1024 THEN format('tenant must be at most 1,024 bytes, not %s', octet_length(_tenant))
  WHEN _tenant ~ '[\x01-\x1f\x7f-\x9f]' THEN 'tenant must not contain control characters'
END;

-- How often a job may be handed over, as a header of its first payload says: a whole number from 1. NULL if it says nothing.
-- Not STABLE: that would read by the snapshot of claim_leased's statement, which is older than those of claim, and would find nothing
-- of a job that was committed in between. (For how it looks up rows, see claim.)
CREATE OR REPLACE FUNCTION @schema@.tries_of(_queue_id integer, _id text, _header text) RETURNS integer
LANGUAGE plpgsql
@lookups@ SET enable_sort = off
AS $$
DECLARE
  _tries text;
BEGIN
  SELECT coalesce(j.headers, (
    SELECT p.headers FROM @schema@.payloads p WHERE p.queue_id = j.queue_id AND p.job_id = j.id LIMIT 1
  ))->>_header INTO _tries
  FROM @schema@.jobs j
  WHERE j.queue_id = _queue_id AND j.id >= _id COLLATE "C" AND j.id <= _id COLLATE "C"
  ORDER BY j.id LIMIT 1;
  RETURN CASE WHEN _tries ~ '^[1-9][0-9]{0,6}$' THEN _tries::integer END;
END
$$;

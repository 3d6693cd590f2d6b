-- As lock_claims, in the form that processes of the release before call.
CREATE OR REPLACE FUNCTION @schema@.lock_rounds(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _wait boolean
) RETURNS TABLE (place integer, tid tid, again boolean)
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT c.place, c.tid, c.again FROM @schema@.lock_claims(_queue_ids, _process_id, _ids, _fences, _wait) c;
END
$$;

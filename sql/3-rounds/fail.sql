-- As fail_claims, in the form that processes of the release before call. They don't say how a round failed.
CREATE OR REPLACE FUNCTION @schema@.fail(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _errors text[],
  _retry_ins double precision[],
  _wait boolean
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT * FROM @schema@.fail_claims(_queue_ids, _process_id, _ids, _fences, _errors, _retry_ins, NULL, _wait);
END
$$;

-- As bury_failed, in the form that `fail` of the release before calls: one may be under way when a migration commits.
CREATE OR REPLACE FUNCTION @schema@.bury_lowest(
  _queue_ids integer[],
  _ids text[],
  _fences bigint[],
  _errors text[],
  _dying integer[]
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT * FROM @schema@.bury_failed(_queue_ids, _ids, _fences, _errors, NULL, _dying);
END
$$;

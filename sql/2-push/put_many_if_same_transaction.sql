-- enqueue_many, as a part of the caller's transaction with this number, which was asked for when the call began. If the
-- session is in another transaction by now, or in none, nothing is done, and it returns false: the client that the caller
-- passed may have been lent to other code meanwhile, and an error would abort the transaction of that code.
--
-- If a number that was given out before is the current one, both statements are of one transaction. With `_shards`, the
-- queue is created if it is missing.
CREATE OR REPLACE FUNCTION @schema@.put_many_if_same_transaction(
  _transaction xid8,
  _queue text,
  _shards integer,
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[],
  _headers jsonb[],
  _tenants text[],
  _expires_ins timestamptz[],
  _installation uuid,
  _database text
)
RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  IF pg_current_xact_id_if_assigned() IS DISTINCT FROM _transaction THEN
    RETURN false;
  END IF;
  CALL @schema@.require_transaction(_installation, _database);
  IF _shards IS NOT NULL THEN
    PERFORM @schema@.create_queue(_queue, _shards);
  END IF;
  PERFORM @schema@.enqueue_many(_queue, _ids, _payloads, _scores, _perform_ins, _lanes, _headers, _tenants, _expires_ins);
  RETURN true;
END
$$;

-- enqueue_many, as a part of the caller's transaction with that number, which was asked for when the call began. Where the
-- session is in another one by now, or in none, nothing is done, and the number comes back as NULL: what the caller passed
-- may have been lent to somebody else meanwhile, whose transaction an error would abort.
--
-- A number that was given out before and is the current one shows that both are statements of one transaction. With
-- `_shards`, the queue is created where it is missing.
CREATE OR REPLACE PROCEDURE @schema@.enqueue_many_in_same_transaction(
  INOUT _transaction xid8,
  _queue text,
  _shards integer,
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[],
  _installation uuid,
  _database text
)
LANGUAGE plpgsql AS $$
BEGIN
  IF pg_current_xact_id_if_assigned() IS DISTINCT FROM _transaction THEN
    _transaction := NULL;
    RETURN;
  END IF;
  CALL @schema@.require_transaction(_installation, _database);
  IF _shards IS NOT NULL THEN
    PERFORM @schema@.create_queue(_queue, _shards);
  END IF;
  PERFORM @schema@.enqueue_many(_queue, _ids, _payloads, _scores, _perform_ins, _lanes);
END
$$;

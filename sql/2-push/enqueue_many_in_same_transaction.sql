-- The form that processes of the release before call: the number is returned as NULL if nothing was done. Not every driver
-- can read a result of the type xid8.
CREATE OR REPLACE PROCEDURE @schema@.enqueue_many_in_same_transaction(
  INOUT _transaction xid8,
  _queue text,
  _shards integer,
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[],
  _headers jsonb[],
  _installation uuid,
  _database text
)
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT @schema@.enqueue_many_if_same_transaction(
    _transaction, _queue, _shards, _ids, _payloads, _scores, _perform_ins, _lanes, _headers, _installation, _database
  ) THEN
    _transaction := NULL;
  END IF;
END
$$;

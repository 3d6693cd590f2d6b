-- What processes of the release before call: put_in_transaction and the like, without tenants.
CREATE OR REPLACE PROCEDURE @schema@.enqueue_in_transaction(
  _queue text,
  _id text,
  _payload jsonb,
  _score double precision,
  _perform_in timestamptz,
  _lane integer,
  _headers jsonb,
  _installation uuid,
  _database text
)
LANGUAGE plpgsql AS $$
BEGIN
  CALL @schema@.put_in_transaction(_queue, _id, _payload, _score, _perform_in, _lane, _headers, NULL, NULL, _installation, _database);
END
$$;
CREATE OR REPLACE PROCEDURE @schema@.enqueue_many_in_transaction(
  _queue text,
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
  CALL @schema@.put_many_in_transaction(
    _queue, _ids, _payloads, _scores, _perform_ins, _lanes, _headers, NULL, NULL, _installation, _database
  );
END
$$;
CREATE OR REPLACE FUNCTION @schema@.enqueue_many_if_same_transaction(
  _transaction xid8,
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
RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  RETURN @schema@.put_many_if_same_transaction(
    _transaction, _queue, _shards, _ids, _payloads, _scores, _perform_ins, _lanes, _headers, NULL, NULL, _installation, _database
  );
END
$$;

-- enqueue_many, as a part of the caller's transaction or not at all, in one round trip (see require_transaction).
CREATE OR REPLACE PROCEDURE @schema@.put_many_in_transaction(
  _queue text,
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
LANGUAGE plpgsql AS $$
BEGIN
  CALL @schema@.require_transaction(_installation, _database);
  PERFORM @schema@.enqueue_many(_queue, _ids, _payloads, _scores, _perform_ins, _lanes, _headers, _tenants, _expires_ins);
END
$$;

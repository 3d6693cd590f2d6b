-- enqueue, as a part of the caller's transaction or not at all; all of it in one round trip (see require_transaction).
CREATE OR REPLACE PROCEDURE @schema@.enqueue_in_transaction(
  _queue text,
  _id text,
  _payload jsonb,
  _score double precision,
  _perform_in timestamptz,
  _lane integer,
  _installation uuid,
  _database text
)
LANGUAGE plpgsql AS $$
BEGIN
  CALL @schema@.require_transaction(_installation, _database);
  PERFORM @schema@.enqueue(_queue, _id, _payload, _score, _perform_in, _lane);
END
$$;

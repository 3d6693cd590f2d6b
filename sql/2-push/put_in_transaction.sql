-- enqueue, as a part of the caller's transaction or not at all, in one round trip.
--
-- Most calls are in order. So the conditions of require_transaction are tried here first, since calling it is most of
-- what it costs. If one of them fails, require_transaction decides; it also has the reasons.
CREATE OR REPLACE PROCEDURE @schema@.put_in_transaction(
  _queue text,
  _id text,
  _payload jsonb,
  _score double precision,
  _perform_in timestamptz,
  _lane integer,
  _headers jsonb,
  _tenant text,
  _expires_in timestamptz,
  _installation uuid,
  _database text
)
LANGUAGE plpgsql AS $$
DECLARE
  _refusal pg_catalog.text;
BEGIN
  IF pg_current_xact_id_if_assigned() IS NULL THEN
    BEGIN
      COMMIT;
    EXCEPTION WHEN invalid_transaction_termination THEN
      GET STACKED DIAGNOSTICS _refusal = MESSAGE_TEXT;
    END;
  END IF;
  IF _refusal <> 'invalid transaction termination' OR _installation <> @schema@.installation()
    OR _database <> current_database() OR current_setting('transaction_read_only')::boolean
  THEN
    CALL @schema@.require_transaction(_installation, _database);
  END IF;
  PERFORM @schema@.enqueue(_queue, _id, _payload, _score, _perform_in, _lane, _headers, _tenant, _expires_in);
END
$$;

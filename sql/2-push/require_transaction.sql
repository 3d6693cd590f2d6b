-- Goes on only in a transaction that was begun explicitly, and in the given database, if one is given. What is pushed
-- as a part of the caller's transaction must not be committed by itself, nor lie where none of the caller's workers
-- looks for it.
--
-- No statement can see by itself whether it is in a transaction block. Its time differs from its transaction's time
-- outside of a block, too, since drivers send each statement in three messages, each with a time of its own. But a
-- transaction that has written has a number, and a procedure may COMMIT only outside of a block. So if there is no
-- number yet, a COMMIT is tried, in an exception block. There it is refused in either case, so it does nothing; in a
-- transaction block, that block is the reason given. A DO inside of EXECUTE, which may never commit, shows how the
-- server's language words that reason.
--
-- So this procedure must be called by CALL, from procedures that are called by CALL themselves: none of them can have
-- SET, nor its owner's rights.
CREATE OR REPLACE PROCEDURE @schema@.require_transaction(_installation uuid DEFAULT NULL, _database text DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
  _in_a_block pg_catalog.text := 'invalid transaction termination';
  _refusal pg_catalog.text;
BEGIN
  IF _installation <> @schema@.installation() OR _database <> current_database() THEN
    RAISE EXCEPTION 'the transaction is in database "%" on %, not in that of its Lockstep', current_database(),
      coalesce(host(inet_server_addr()) || ':' || inet_server_port(), 'a local socket')
      USING ERRCODE = 'LK014', HINT = 'Pass a transaction of that database, or enqueue through a Lockstep of this one.';
  END IF;
  -- On a replica every transaction is read-only: there, the push itself says so.
  IF current_setting('transaction_read_only')::boolean AND NOT pg_is_in_recovery() THEN
    RAISE EXCEPTION 'the transaction is READ ONLY'
      USING ERRCODE = 'LK024', HINT = 'Begin it with: BEGIN READ WRITE; see default_transaction_read_only, too.';
  END IF;
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RETURN;
  END IF;
  BEGIN
    COMMIT;
  EXCEPTION WHEN invalid_transaction_termination THEN
    GET STACKED DIAGNOSTICS _refusal = MESSAGE_TEXT;
  END;
  IF _refusal <> _in_a_block THEN
    BEGIN
      EXECUTE 'DO $do$ BEGIN COMMIT; END $do$';
    EXCEPTION WHEN invalid_transaction_termination THEN
      GET STACKED DIAGNOSTICS _in_a_block = MESSAGE_TEXT;
    END;
    IF _refusal <> _in_a_block THEN
      RAISE EXCEPTION 'there is no transaction: none was begun, or it has ended'
        USING ERRCODE = 'LK004', HINT = 'BEGIN first, and push before COMMIT.';
    END IF;
  END IF;
END
$$;

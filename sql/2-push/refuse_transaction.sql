-- Aborts the transaction with this number, if the session is in it: a call has stored a part of its jobs there and
-- can't store the rest. Leaves any other transaction alone.
CREATE OR REPLACE PROCEDURE @schema@.refuse_transaction(_transaction xid8)
LANGUAGE plpgsql AS $$
BEGIN
  IF pg_current_xact_id_if_assigned() = _transaction THEN
    RAISE EXCEPTION 'a part of a call''s jobs could not be stored, so the transaction may not be committed with the others'
      USING ERRCODE = 'LK034';
  END IF;
END
$$;

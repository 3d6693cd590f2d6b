-- The protocol reads in a later statement what others committed after an earlier one. Under REPEATABLE READ all
-- statements see one snapshot, and a completion could delete a payload that no one has read: so this refuses.
CREATE OR REPLACE FUNCTION @schema@.require_read_committed() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'this needs a READ COMMITTED transaction, not %', upper(current_setting('transaction_isolation'))
      USING ERRCODE = 'LK003', HINT = 'Begin it with: BEGIN ISOLATION LEVEL READ COMMITTED.';
  END IF;
END
$$;

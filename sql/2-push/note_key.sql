-- Notes that a push with an idempotency key stores _stored jobs, in the transaction of those jobs, before they are pushed.
-- Returns no row if the key is new, or was noted more than 24 hours ago: then the caller goes on, and key and jobs are stored
-- together or not at all. Otherwise returns what was noted: the caller pushes nothing, and answers as before.
--
-- If another session has noted the key and not ended yet, the INSERT waits for it, as long as the caller's lock_timeout says (55P03).
-- If that commits, ON CONFLICT finds the row and locks it, so that it can't be trimmed before it's read; the SELECT is a later
-- statement, which sees it. If that rolls back, or its process or the server dies, there is no row, and the key is ours.
-- Nobody waits for a key who has locked anything else, so this can't deadlock.
--
-- It runs with its owner's rights, for the producers' role: a producer can't list keys.
CREATE OR REPLACE FUNCTION @schema@.note_key(_holder text, _key text, _digest bytea, _stored integer)
RETURNS TABLE (digest bytea, stored integer)
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
@lookups@
AS $$
#variable_conflict use_column
BEGIN
  INSERT INTO @schema@.idempotency_keys AS k (holder, key, digest, stored) VALUES (_holder, _key, _digest, _stored)
  ON CONFLICT (holder, key) DO UPDATE SET digest = excluded.digest, stored = excluded.stored, noted_at = excluded.noted_at
    WHERE k.noted_at <= clock_timestamp() - interval '24 hours';
  IF FOUND THEN
    RETURN;
  END IF;
  RETURN QUERY SELECT k.digest, k.stored FROM @schema@.idempotency_keys k WHERE k.holder = _holder AND k.key = _key;
END
$$;
REVOKE ALL ON FUNCTION @schema@.note_key FROM PUBLIC;

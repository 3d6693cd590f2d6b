-- Corrects how many jobs were stored under a key that the same transaction has noted: a middleware has dropped or added some.
-- (See note_key for whose rights it has.)
CREATE OR REPLACE FUNCTION @schema@.recount_key(_holder text, _key text, _stored integer) RETURNS void
LANGUAGE sql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
  UPDATE @schema@.idempotency_keys k SET stored = _stored WHERE k.holder = _holder AND k.key = _key;
$$;
REVOKE ALL ON FUNCTION @schema@.recount_key FROM PUBLIC;

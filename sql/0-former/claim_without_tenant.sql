-- claim of the release before, which returned no tenants. Workers name the columns that they read, so those of the release before
-- go on with the new one. It gets the owner and the grants of the former one.
DO $replace$
DECLARE
  _former constant pg_catalog.oid := pg_catalog.to_regprocedure(
    '@schema@.claim(integer, integer[], integer[], smallint[], integer[], integer[], integer[], bigint[], text[], bigint)'
  );
  _acl pg_catalog.aclitem[];
  _owner pg_catalog.oid;
  _grant pg_catalog.record;
BEGIN
  SELECT p.proacl, p.proowner INTO _acl, _owner FROM pg_proc p
  WHERE p.oid = _former AND NOT 'tenant' = ANY (p.proargnames);
  IF NOT FOUND THEN
    RETURN;
  END IF;
  DROP FUNCTION @schema@.claim(integer, integer[], integer[], smallint[], integer[], integer[], integer[], bigint[], text[], bigint);
  CREATE FUNCTION @schema@.claim(
    _process_id integer, _queue_ids integer[], _shards integer[], _lanes smallint[], _counts integer[],
    _max_payloads integer[], _max_bytes integer[], _after bigint[], _after_ids text[], _budget bigint
  ) RETURNS TABLE (
    place integer, id text, fence bigint, perform_in bigint, retry_count integer, crashes smallint, rescued boolean,
    error text, payload text, headers text, score text, seq bigint, cut boolean, passed boolean, tenant text
  ) LANGUAGE sql AS 'SELECT NULL::integer, NULL, NULL::bigint, NULL::bigint, NULL::integer, NULL::smallint, NULL::boolean, NULL, NULL, NULL, NULL, NULL::bigint, NULL::boolean, NULL::boolean, NULL WHERE false';
  EXECUTE format('ALTER FUNCTION @schema@.claim OWNER TO %s', _owner::regrole);
  FOR _grant IN SELECT a.grantee FROM aclexplode(_acl) a WHERE a.grantee NOT IN (0, _owner) LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION @schema@.claim TO %s', _grant.grantee::regrole);
  END LOOP;
  -- Nobody but the grantees may call it, if that was so.
  IF _acl IS NOT NULL AND NOT EXISTS (SELECT FROM aclexplode(_acl) a WHERE a.grantee = 0) THEN
    REVOKE ALL ON FUNCTION @schema@.claim FROM PUBLIC;
  END IF;
END
$replace$;

-- Functions of the releases before whose rows had no expiry, or claims no tenant. Processes name the columns that they read, so those
-- of the release before go on with the new ones. What they return can't be changed in place: so each is made anew, with the
-- owner and the grants of the former one, and gets its body in 3-rounds.
DO $replace$
DECLARE
  _claimed constant pg_catalog.text := 'place integer, id text, fence bigint, perform_in bigint, retry_count integer, crashes smallint, '
    'rescued boolean, error text, payload text, headers text, score text, seq bigint, cut boolean, passed boolean, tenant text, '
    'expires_in bigint, expired integer';
  _one pg_catalog.record;
  _grant pg_catalog.record;
BEGIN
  FOR _one IN
    SELECT p.oid::regprocedure::text AS signature, pg_get_function_identity_arguments(p.oid) AS arguments, p.proname AS name,
      p.proacl AS acl, p.proowner AS owner, f.result
    FROM (VALUES
      ('claim', _claimed), ('claim_leased', _claimed),
      ('load_payloads', 'payload text, headers text, score text, seq bigint, cut boolean, lost boolean, expires_in bigint, expired integer'),
      ('payloads_of_round', 'payload jsonb, headers jsonb, score double precision, seq bigint, cut boolean, expires_in timestamptz, expired integer'),
      ('payloads_below', 'tid tid, digest bytea, fence bigint, score double precision, seq bigint, payload jsonb, headers jsonb, expires_in timestamptz'),
      ('take_within_limits', 'place integer, tid tid, id text, perform_in timestamptz, retry_count integer, crashes integer, error text, '
        'rescued boolean, payload jsonb, headers jsonb, score double precision, others boolean, large boolean, tenant text, '
        'fence bigint, waits jsonb, expires_in timestamptz')
    ) AS f(name, result)
    JOIN pg_proc p ON p.proname = f.name AND p.pronamespace = '@schema@'::regnamespace AND NOT 'expires_in' = ANY (p.proargnames)
  LOOP
    EXECUTE format('DROP FUNCTION %s', _one.signature);
    EXECUTE format(
      'CREATE FUNCTION @schema@.%I(%s) RETURNS TABLE (%s) LANGUAGE plpgsql AS ''BEGIN END''', _one.name, _one.arguments, _one.result
    );
    EXECUTE format('ALTER FUNCTION %s OWNER TO %s', _one.signature, _one.owner::regrole);
    FOR _grant IN SELECT a.grantee FROM aclexplode(_one.acl) a WHERE a.grantee NOT IN (0, _one.owner) LOOP
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', _one.signature, _grant.grantee::regrole);
    END LOOP;
    -- Nobody but the grantees may call it, if that was so.
    IF _one.acl IS NOT NULL AND NOT EXISTS (SELECT FROM aclexplode(_one.acl) a WHERE a.grantee = 0) THEN
      EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', _one.signature);
    END IF;
  END LOOP;
END
$replace$;

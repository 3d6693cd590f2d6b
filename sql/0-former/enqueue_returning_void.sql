-- enqueue of the release before, which returned nothing. A session may have looked it up just before a migration commits,
-- and a function with a parsed body (BEGIN ATOMIC) goes on calling what it found. So it keeps its identity, and loses only its
-- name. The release after the next drops it.
--
-- The functions that take the name get its owner, whose rights they use, and its grants. sql/2-push gives them their bodies.
DO $rename$
DECLARE
  _former pg_catalog.oid := pg_catalog.to_regprocedure(
    '@schema@.enqueue(text, text, jsonb, double precision, timestamptz, integer, jsonb)'
  );
  _new pg_catalog.text;
  _acl pg_catalog.aclitem[];
  _owner pg_catalog.oid;
  _grant pg_catalog.record;
BEGIN
  SELECT p.proacl, p.proowner INTO _acl, _owner FROM pg_proc p WHERE p.oid = _former AND p.prorettype = 'void'::regtype;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  EXECUTE format('ALTER FUNCTION %s RENAME TO enqueue_returning_void', _former::regprocedure);
  FOREACH _new IN ARRAY ARRAY[
    '@schema@.enqueue(queue text, id text, payload jsonb, score double precision, perform_in timestamptz, lane integer, headers jsonb)',
    '@schema@.enqueue(queue text, id anynonarray, payload jsonb, score double precision, perform_in timestamptz, lane integer, headers jsonb)'
  ] LOOP
    EXECUTE format('CREATE FUNCTION %s RETURNS boolean LANGUAGE sql AS ''SELECT NULL::pg_catalog.bool''', _new);
    EXECUTE format('ALTER FUNCTION %s OWNER TO %s', _new, _owner::regrole);
    FOR _grant IN
      SELECT a.grantee::regrole AS role, bool_or(a.is_grantable) AS is_grantable
      FROM aclexplode(_acl) a WHERE a.grantee <> 0 AND a.grantee <> _owner GROUP BY 1
    LOOP
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s%s', _new, _grant.role,
        CASE WHEN _grant.is_grantable THEN ' WITH GRANT OPTION' END);
    END LOOP;
  END LOOP;
END
$rename$;
CREATE OR REPLACE FUNCTION @schema@.enqueue_returning_void(
  queue text,
  id text,
  payload jsonb DEFAULT '""',
  score double precision DEFAULT NULL,
  perform_in timestamptz DEFAULT NULL,
  lane integer DEFAULT 0,
  headers jsonb DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM @schema@.enqueue(queue, id, payload, score, perform_in, lane, headers);
END
$$;
REVOKE ALL ON FUNCTION @schema@.enqueue_returning_void FROM PUBLIC;

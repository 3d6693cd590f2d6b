-- Functions of the releases before that take no tenant, or no expiry. A session may have looked one up just before a migration commits, and a
-- function with a parsed body (BEGIN ATOMIC) goes on calling what it found. So each keeps its identity, and loses only its
-- name. The release after the next drops them.
--
-- The functions that take the name get its owner, whose rights they use, and its grants. sql/2-push gives them their bodies.
DO $rename$
DECLARE
  _enqueue constant pg_catalog.text[] := ARRAY[
    '@schema@.enqueue(queue text, id text, payload jsonb, score double precision, perform_in timestamptz, lane integer, headers jsonb, tenant text, expires_in timestamptz)',
    '@schema@.enqueue(queue text, id anynonarray, payload jsonb, score double precision, perform_in timestamptz, lane integer, headers jsonb, tenant text, expires_in timestamptz)'
  ];
  _many constant pg_catalog.text[] := ARRAY[
    '@schema@.enqueue_many(_queue text, _ids text[], _payloads jsonb[], _scores double precision[], _perform_ins timestamptz[], _lanes smallint[], _headers jsonb[], _tenants text[], _expires_ins timestamptz[])'
  ];
  _one pg_catalog.record;
  _new pg_catalog.text;
  _grant pg_catalog.record;
BEGIN
  FOR _one IN
    SELECT p.oid::regprocedure AS former, p.proacl AS acl, p.proowner AS owner, f.former_name, f.names, f.result
    FROM (VALUES
      ('enqueue(text, text, jsonb, double precision, timestamptz, integer, jsonb)', 'void', 'enqueue_returning_void', _enqueue, 'boolean'),
      ('enqueue(text, text, jsonb, double precision, timestamptz, integer, jsonb)', 'boolean', 'enqueue_without_tenant', _enqueue, 'boolean'),
      ('enqueue(text, anynonarray, jsonb, double precision, timestamptz, integer, jsonb)', 'boolean', 'enqueue_any_without_tenant', NULL, NULL),
      ('enqueue_many(text, text[], jsonb[], double precision[], timestamptz[], smallint[], jsonb[])', 'bigint', 'enqueue_many_without_tenants', _many, 'bigint'),
      ('enqueue(text, text, jsonb, double precision, timestamptz, integer, jsonb, text)', 'boolean', 'enqueue_without_expiry', _enqueue, 'boolean'),
      ('enqueue(text, anynonarray, jsonb, double precision, timestamptz, integer, jsonb, text)', 'boolean', 'enqueue_any_without_expiry', NULL, NULL),
      ('enqueue_many(text, text[], jsonb[], double precision[], timestamptz[], smallint[], jsonb[], text[])', 'bigint', 'enqueue_many_without_expiries', _many, 'bigint')
    ) AS f(signature, returned, former_name, names, result)
    JOIN pg_proc p ON p.oid = pg_catalog.to_regprocedure('@schema@.' || f.signature) AND p.prorettype = f.returned::regtype
  LOOP
    EXECUTE format('ALTER FUNCTION %s RENAME TO %I', _one.former, _one.former_name);
    FOREACH _new IN ARRAY coalesce(_one.names, '{}') LOOP
      EXECUTE format('CREATE FUNCTION %s RETURNS %s LANGUAGE sql AS ''SELECT NULL::%2$s''', _new, _one.result);
      EXECUTE format('ALTER FUNCTION %s OWNER TO %s', _new, _one.owner::regrole);
      FOR _grant IN
        SELECT a.grantee::regrole AS role, bool_or(a.is_grantable) AS is_grantable
        FROM aclexplode(_one.acl) a WHERE a.grantee <> 0 AND a.grantee <> _one.owner GROUP BY 1
      LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s%s', _new, _grant.role,
          CASE WHEN _grant.is_grantable THEN ' WITH GRANT OPTION' END);
      END LOOP;
    END LOOP;
  END LOOP;
END
$rename$;

-- The number of this installation, drawn when it was created. It tells the schema from one of the same name in another
-- database. It is a constant in a function, so that no table is read. A promoted replica and a restored dump keep it.
DO $do$
BEGIN
  IF to_regprocedure('@schema@.installation()') IS NULL THEN
    EXECUTE 'CREATE FUNCTION @schema@.installation() RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN '
      || quote_literal(gen_random_uuid()) || '::uuid';
  END IF;
END
$do$;

-- Refuses limits that a claim could not go by (see free_places); NULL: none.
CREATE OR REPLACE FUNCTION @schema@.check_limits(_limits jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF _limits IS NOT NULL AND (
    jsonb_typeof(_limits) = 'object' AND jsonb_typeof(coalesce(_limits->'tenant', '{}')) = 'object'
    AND _limits - 'concurrency' - 'rate' - 'tenant' = '{}' AND coalesce(_limits->'tenant', '{}') - 'concurrency' - 'rate' = '{}'
    AND NOT EXISTS (
      SELECT FROM (VALUES (_limits), (_limits->'tenant')) AS l(one)
      WHERE l.one IS NOT NULL AND (
        coalesce(l.one->>'concurrency', '1') ~ '^[1-9][0-9]{0,8}$' AND jsonb_typeof(coalesce(l.one->'concurrency', '1')) = 'number'
        AND jsonb_typeof(coalesce(l.one->'rate', '{}')) = 'object'
        AND (l.one->'rate' IS NULL OR (
          l.one->'rate'->>'jobs' ~ '^[1-9][0-9]{0,8}$' AND jsonb_typeof(l.one->'rate'->'jobs') = 'number'
          AND jsonb_typeof(l.one->'rate'->'per') = 'number' AND (l.one->'rate'->'per')::pg_catalog.numeric > 0
          AND (l.one->'rate'->'per')::pg_catalog.numeric <= 2678400
        ))
      ) IS NOT TRUE
    )
  ) IS NOT TRUE THEN
    RAISE EXCEPTION 'these are no limits: %', left(_limits::pg_catalog.text, 200)
      USING ERRCODE = '22023', HINT = 'They look like {"concurrency": 10, "rate": {"jobs": 100, "per": 60}, "tenant": {"concurrency": 2}}.';
  END IF;
END
$$;

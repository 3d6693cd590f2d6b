-- Refuses rules that a push could not go by (see lanes_of); NULL: none.
CREATE OR REPLACE FUNCTION @schema@.check_fairness(_fairness jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF _fairness IS NOT NULL AND (
    jsonb_typeof(_fairness->'window') = 'number' AND (_fairness->'window')::pg_catalog.numeric BETWEEN 1 AND 2678400
    AND jsonb_typeof(_fairness->'rules') = 'array' AND NOT EXISTS (
      SELECT FROM jsonb_array_elements(_fairness->'rules') AS e(rule)
      WHERE (
        jsonb_typeof(e.rule->'over') = 'number' AND (e.rule->'over')::pg_catalog.numeric BETWEEN 0 AND 1000000
        AND e.rule->>'over' ~ '^[0-9]+$'
        AND jsonb_typeof(e.rule->'per') = 'number' AND (e.rule->'per')::pg_catalog.numeric > 0
        AND (e.rule->'per')::pg_catalog.numeric <= (_fairness->'window')::pg_catalog.numeric
        AND jsonb_typeof(e.rule->'lane') = 'number' AND (e.rule->'lane')::pg_catalog.numeric BETWEEN 0 AND 32767
        AND e.rule->>'lane' ~ '^[0-9]+$'
      ) IS NOT TRUE
    )
  ) IS NOT TRUE THEN
    RAISE EXCEPTION 'these are no rules for tenants: %', left(_fairness::pg_catalog.text, 200)
      USING ERRCODE = '22023', HINT = 'They look like {"window": 86400, "rules": [{"over": 100, "per": 3600, "lane": 1}]}.';
  END IF;
END
$$;

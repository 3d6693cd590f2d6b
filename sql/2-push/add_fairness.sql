-- Gives a queue without rules for its tenants some (see lanes_of). Pushes that begin from now on go by them.
-- It runs with its owner's rights, for the roles that were granted it, as create_queue does.
CREATE OR REPLACE FUNCTION @schema@.add_fairness(_queue_id integer, _fairness jsonb) RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM @schema@.check_fairness(_fairness);
  UPDATE @schema@.queues q SET fairness = _fairness WHERE q.queue_id = _queue_id AND q.fairness IS NULL;
  RETURN FOUND;
END
$$;
REVOKE ALL ON FUNCTION @schema@.add_fairness FROM PUBLIC;

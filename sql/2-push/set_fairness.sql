-- Gives a queue rules for its tenants (see lanes_of) instead of those that it has; NULL: none. Returns whether it had others.
-- Pushes that begin from now on go by them.
-- It runs with its owner's rights, for the workers' role.
CREATE OR REPLACE FUNCTION @schema@.set_fairness(_queue_id integer, _fairness jsonb) RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM @schema@.check_fairness(_fairness);
  UPDATE @schema@.queues q SET fairness = _fairness WHERE q.queue_id = _queue_id AND q.fairness IS DISTINCT FROM _fairness;
  RETURN FOUND;
END
$$;
REVOKE ALL ON FUNCTION @schema@.set_fairness FROM PUBLIC;

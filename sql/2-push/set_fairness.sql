-- Gives a queue rules for its tenants (see lanes_of); NULL: none. Returns whether it had others. Pushes that begin from now on go
-- by them. Unless `_replace`, only a queue without rules gets some.
-- It runs with its owner's rights, for the roles that were granted it, as create_queue does.
CREATE OR REPLACE FUNCTION @schema@.set_fairness(_queue_id integer, _fairness jsonb, _replace boolean DEFAULT true) RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  UPDATE @schema@.queues q SET fairness = _fairness
  WHERE q.queue_id = _queue_id AND q.fairness IS DISTINCT FROM _fairness AND (_replace OR q.fairness IS NULL);
  RETURN FOUND;
END
$$;
REVOKE ALL ON FUNCTION @schema@.set_fairness FROM PUBLIC;

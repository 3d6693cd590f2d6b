-- Moves the payloads of a queue that died first back to their jobs, `_most` at once, as requeue does, and returns how many.
-- Their jobs are due one after the other, in the order of those deaths. `_headers` go over those that the payloads have, and they
-- expire at `_expires_in` (NULL: never).
--
-- What is chosen isn't locked, since requeue locks jobs before rows of the morgue. If another session has moved or deleted some of
-- it meanwhile, requeue leaves that out: then all is undone and chosen anew. So two sessions together move as much as both want, and
-- what the other one has moved stays as it is. After requeue, the rows of the jobs are ours: nobody claims them until we commit.
CREATE OR REPLACE FUNCTION @schema@.respawn(_queue text, _most integer, _headers jsonb, _expires_in timestamptz)
RETURNS integer
LANGUAGE plpgsql
@lookups@
AS $$
DECLARE
  _queue_id integer;
  _ids text[];
  _digests bytea[];
  _count integer;
  _now timestamptz;
BEGIN
  SELECT q.queue_id INTO _queue_id FROM @schema@.queues q WHERE q.name = _queue;
  LOOP
    SELECT array_agg(d.job_id ORDER BY d.died_at, d.job_id), array_agg(d.digest ORDER BY d.died_at, d.job_id) INTO _ids, _digests
    FROM (
      SELECT m.job_id, m.digest, m.died_at FROM @schema@.morgue m
      WHERE m.queue_id = _queue_id ORDER BY m.died_at, m.job_id LIMIT _most
    ) d;
    IF _ids IS NULL THEN
      RETURN 0;
    END IF;
    BEGIN
      _count := @schema@.requeue(_queue_id, _ids, _digests);
      EXIT WHEN _count = cardinality(_ids);
      RAISE serialization_failure;
    EXCEPTION WHEN serialization_failure THEN
      NULL; -- Undone.
    END;
  END LOOP;
  _now := clock_timestamp();
  UPDATE @schema@.payloads p SET headers = coalesce(p.headers, '{}') || _headers, expires_in = _expires_in
  FROM unnest(_ids, _digests) AS d(id, digest)
  WHERE p.queue_id = _queue_id AND p.job_id = d.id COLLATE "C" AND p.digest = d.digest;
  UPDATE @schema@.jobs j SET perform_in = _now - (cardinality(_ids) - d.place) * interval '1 microsecond'
  FROM unnest(_ids) WITH ORDINALITY AS d(id, place)
  WHERE j.queue_id = _queue_id AND j.id = d.id COLLATE "C" AND j.claimed_by IS NULL;
  RETURN _count;
END
$$;

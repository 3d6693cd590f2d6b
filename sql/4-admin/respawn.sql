-- Moves the payloads of a queue that died first back to their jobs, `_most` at once, as requeue does, and returns how many.
-- Their jobs are due one after the other, in the order of those deaths. `_headers` go over those that the payloads have, and they
-- expire at `_expires_in` (NULL: never).
--
-- What is chosen isn't locked, since requeue locks jobs before rows of the morgue. If another session has moved or deleted some of
-- it meanwhile, requeue leaves that out: then all is undone and chosen anew. So two sessions together move as much as both want, and
-- what the other one has moved stays as it is. After requeue, the rows of the jobs are ours: nobody claims them until we commit.
--
-- Where the caller has set a lock_timeout, and somebody's open transaction holds one of the jobs, the payloads are moved one by one. Those
-- of jobs that are held are passed over, and later ones come in their place: the first 1,000 held are tried. Nothing is waited for then,
-- since rows of jobs are locked in the order of deaths, in which a wait could deadlock. If all are held, it fails (55P03): nothing was done.
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
  _dead record;
  _held text[] := '{}';
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
    EXCEPTION
      WHEN serialization_failure THEN
        NULL; -- Undone.
      WHEN lock_not_available THEN
        PERFORM set_config('lock_timeout', '1ms', true);
        _ids := '{}';
        _digests := '{}';
        FOR _dead IN SELECT m.job_id, m.digest FROM @schema@.morgue m WHERE m.queue_id = _queue_id ORDER BY m.died_at, m.job_id LOOP
          EXIT WHEN cardinality(_ids) = _most OR cardinality(_held) = 1000;
          BEGIN
            IF _dead.job_id <> ALL (_held) AND @schema@.requeue(_queue_id, ARRAY[_dead.job_id], ARRAY[_dead.digest]) = 1 THEN
              _ids := _ids || _dead.job_id;
              _digests := _digests || _dead.digest;
            END IF;
          EXCEPTION WHEN lock_not_available THEN
            _held := _held || _dead.job_id;
          END;
        END LOOP;
        IF _ids = '{}' AND _held <> '{}' THEN
          RAISE lock_not_available;
        END IF;
        _count := cardinality(_ids);
        EXIT;
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

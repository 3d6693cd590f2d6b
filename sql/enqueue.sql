-- One job, for every language that speaks SQL:
--   SELECT @schema@.enqueue('orders', 'order-1', '{"status": "paid"}');
-- `score` orders the payloads of one id (default: now in ms since 1970), `perform_in` is when the job may
-- start (default: now), `lane` its class of service (default 0).
CREATE OR REPLACE FUNCTION @schema@.enqueue(
  queue text,
  id text,
  payload jsonb DEFAULT '""',
  score double precision DEFAULT NULL,
  perform_in timestamptz DEFAULT NULL,
  lane integer DEFAULT 0
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF lane NOT BETWEEN 0 AND 32767 THEN
    RAISE EXCEPTION 'jobs[0].lane must be a whole number from 0 to 32767, not %', lane USING ERRCODE = 'LK002';
  END IF;
  PERFORM @schema@.enqueue_many(queue, ARRAY[id], ARRAY[payload], ARRAY[score], ARRAY[perform_in], ARRAY[lane::smallint]);
END
$$;

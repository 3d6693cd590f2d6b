-- What enqueue and enqueue_many were called before expiries (see enqueue_renamed.sql).
CREATE OR REPLACE FUNCTION @schema@.enqueue_without_expiry(
  queue text,
  id text,
  payload jsonb DEFAULT '""',
  score double precision DEFAULT NULL,
  perform_in timestamptz DEFAULT NULL,
  lane integer DEFAULT NULL,
  headers jsonb DEFAULT NULL,
  tenant text DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN @schema@.enqueue(queue, id, payload, score, perform_in, lane, headers, tenant);
END
$$;
REVOKE ALL ON FUNCTION @schema@.enqueue_without_expiry FROM PUBLIC;
-- It was a single SELECT, which a parsed body has put in its place. So it runs with its caller's rights.
CREATE OR REPLACE FUNCTION @schema@.enqueue_any_without_expiry(
  queue text,
  id anynonarray,
  payload jsonb DEFAULT '""',
  score double precision DEFAULT NULL,
  perform_in timestamptz DEFAULT NULL,
  lane integer DEFAULT NULL,
  headers jsonb DEFAULT NULL,
  tenant text DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  RETURN @schema@.enqueue(queue, id::pg_catalog.text, payload, score, perform_in, lane, headers, tenant);
END
$$;
REVOKE ALL ON FUNCTION @schema@.enqueue_any_without_expiry FROM PUBLIC;
CREATE OR REPLACE FUNCTION @schema@.enqueue_many_without_expiries(
  _queue text,
  _ids text[],
  _payloads jsonb[] DEFAULT NULL,
  _scores double precision[] DEFAULT NULL,
  _perform_ins timestamptz[] DEFAULT NULL,
  _lanes smallint[] DEFAULT NULL,
  _headers jsonb[] DEFAULT NULL,
  _tenants text[] DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN @schema@.enqueue_many(_queue, _ids, _payloads, _scores, _perform_ins, _lanes, _headers, _tenants);
END
$$;
REVOKE ALL ON FUNCTION @schema@.enqueue_many_without_expiries FROM PUBLIC;
-- What enqueue_many of the release before calls: one may be under way when a migration commits.
CREATE OR REPLACE FUNCTION @schema@.push_jobs(
  _queue_id integer,
  _shards integer,
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[],
  _headers jsonb[],
  _tenants text[]
) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
  RETURN @schema@.put_jobs(_queue_id, _shards, _ids, _payloads, _scores, _perform_ins, _lanes, _headers, _tenants, NULL);
END
$$;
-- As covers, for an enqueue of the release before that is under way when a migration commits. It does not know when the payload
-- expires that the row carries: so nothing covers what it pushes.
CREATE OR REPLACE FUNCTION @schema@.merges(
  _payload jsonb, _score double precision, _claimed_by integer, _carried jsonb, _carried_score double precision
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN false;

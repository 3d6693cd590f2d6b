-- What enqueue and enqueue_many were called before tenants (see enqueue_renamed.sql).
CREATE OR REPLACE FUNCTION @schema@.enqueue_returning_void(
  queue text,
  id text,
  payload jsonb DEFAULT '""',
  score double precision DEFAULT NULL,
  perform_in timestamptz DEFAULT NULL,
  lane integer DEFAULT 0,
  headers jsonb DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM @schema@.enqueue(queue, id, payload, score, perform_in, lane, headers);
END
$$;
REVOKE ALL ON FUNCTION @schema@.enqueue_returning_void FROM PUBLIC;
CREATE OR REPLACE FUNCTION @schema@.enqueue_without_tenant(
  queue text,
  id text,
  payload jsonb DEFAULT '""',
  score double precision DEFAULT NULL,
  perform_in timestamptz DEFAULT NULL,
  lane integer DEFAULT 0,
  headers jsonb DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN @schema@.enqueue(queue, id, payload, score, perform_in, lane, headers);
END
$$;
REVOKE ALL ON FUNCTION @schema@.enqueue_without_tenant FROM PUBLIC;
CREATE OR REPLACE FUNCTION @schema@.enqueue_any_without_tenant(
  queue text,
  id anynonarray,
  payload jsonb DEFAULT '""',
  score double precision DEFAULT NULL,
  perform_in timestamptz DEFAULT NULL,
  lane integer DEFAULT 0,
  headers jsonb DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  RETURN @schema@.enqueue(queue, id::pg_catalog.text, payload, score, perform_in, lane, headers);
END
$$;
REVOKE ALL ON FUNCTION @schema@.enqueue_any_without_tenant FROM PUBLIC;
CREATE OR REPLACE FUNCTION @schema@.enqueue_many_without_tenants(
  _queue text,
  _ids text[],
  _payloads jsonb[] DEFAULT NULL,
  _scores double precision[] DEFAULT NULL,
  _perform_ins timestamptz[] DEFAULT NULL,
  _lanes smallint[] DEFAULT NULL,
  _headers jsonb[] DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN @schema@.enqueue_many(_queue, _ids, _payloads, _scores, _perform_ins, _lanes, _headers);
END
$$;
REVOKE ALL ON FUNCTION @schema@.enqueue_many_without_tenants FROM PUBLIC;
-- What enqueue_many of the release before calls: one may be under way when a migration commits.
CREATE OR REPLACE FUNCTION @schema@.push_many(
  _queue_id integer,
  _shards integer,
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[],
  _headers jsonb[] DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
  RETURN @schema@.push_jobs(_queue_id, _shards, _ids, _payloads, _scores, _perform_ins, _lanes, _headers, NULL);
END
$$;

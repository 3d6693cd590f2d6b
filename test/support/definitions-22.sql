do $$ begin
  if to_regnamespace('"lockstep"') is null then create schema "lockstep"; end if;
end $$;

create table if not exists "lockstep".migrations (name varchar(255) primary key, timestamp varchar(255) not null);

create sequence "lockstep"."fences" as bigint cache 1;

create sequence "lockstep"."pushes" as bigint cache 1;

create table "lockstep"."queues" ("queue_id" integer generated always as identity primary key, "name" text collate "C" not null unique, "shards" integer not null, "paused_at" timestamptz, "created_at" timestamptz default clock_timestamp() not null, constraint "queues_name" check (octet_length(name) between 1 and 255), constraint "queues_shards" check (shards between 1 and 16384));

create table "lockstep"."jobs" ("fence" bigint default 0 not null, "perform_in" timestamptz not null, "next_perform_in" timestamptz, "claimed_at" timestamptz, "claimed_by" integer, "queue_id" integer not null, "shard" integer not null, "retry_count" integer default -1 not null, "lane" smallint default 0 not null, "crashes" smallint default 0 not null, "id" text collate "C" not null, "error" text, constraint "jobs_pkey" primary key ("queue_id", "id")) with (fillfactor = 65, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.2);

create index jobs_due on "lockstep"."jobs" (queue_id, shard, lane, perform_in, id);

create table "lockstep"."payloads" ("fence" bigint not null, "seq" bigint default nextval('"lockstep".pushes'::regclass) not null, "score" double precision not null, "queue_id" integer not null, "job_id" text collate "C" not null, "digest" bytea not null, "payload" jsonb not null, "headers" jsonb, constraint "payloads_pkey" primary key ("queue_id", "job_id", "fence", "digest")) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.2);

create table "lockstep"."morgue" ("died_at" timestamptz not null, "score" double precision not null, "queue_id" integer not null, "shard" integer not null, "job_id" text collate "C" not null, "digest" bytea not null, "payload" jsonb not null, "headers" jsonb, "error" text, constraint "morgue_pkey" primary key ("queue_id", "job_id", "digest"));

create index "morgue_died" on "lockstep"."morgue" ("queue_id", "died_at", "job_id", "digest");

create table "lockstep"."processes" ("process_id" integer generated always as identity primary key, "host" text not null, "pid" integer not null, "version" text not null, "slots" integer not null, "queues" text[] not null, "started_at" timestamptz default clock_timestamp() not null, "expires_at" timestamptz not null, "quiet" boolean default false not null, "renewal" uuid default gen_random_uuid() not null, "lease" integer default 60000 not null) with (fillfactor = 20);

create table "lockstep"."counters" ("processed" bigint not null, "failed" bigint not null, "queue_id" integer not null, "day" date not null, constraint "counters_pkey" primary key ("queue_id", "day")) with (fillfactor = 50);

create table "lockstep"."minute_counters" ("processed" bigint not null, "failed" bigint not null, "queue_id" integer not null, "minute" timestamptz not null, constraint "minute_counters_pkey" primary key ("queue_id", "minute")) with (fillfactor = 50);

create table "lockstep"."release" ("only_row" boolean default true primary key check (only_row), "serial" integer not null, "oldest_served" integer not null, "hash" text not null, "made" text not null, "version" text not null, "migrated_at" timestamptz not null);

create table "lockstep"."timeline" ("only_row" boolean default true primary key check (only_row), "system" bigint not null, "timeline" integer not null);

insert into "lockstep".migrations values ('0001_tables', to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'));

select set_config('lockstep.search_path', current_setting('search_path'), false);
set search_path = pg_catalog, pg_temp;

-- Two payloads are equal if their digests are equal. The digest is that of the text that jsonb stores: its keys are
-- sorted and the spaces gone, but a number keeps the digits it was written with. So 1 and 1.0 are two payloads,
-- although jsonb's `=` calls them equal: a handler gets the stored text, and of two texts that differ none is dropped.
-- It is sha256, because servers hardened to FIPS have no md5.
CREATE OR REPLACE FUNCTION "lockstep".digest_of(_payload jsonb) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN sha256(convert_to(_payload::text, 'UTF8'));


-- The inverse of micros(). NULL means the beginning of time.
CREATE OR REPLACE FUNCTION "lockstep".from_micros(_micros bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce('1970-01-01 00:00:00+00'::timestamptz + _micros * interval '1 microsecond', '-infinity');


-- The number of this installation, drawn when it was created. It tells the schema from one of the same name in another
-- database. It is a constant in a function, so that no table is read. A promoted replica and a restored dump keep it.
DO $do$
BEGIN
  IF to_regprocedure('"lockstep".installation()') IS NULL THEN
    EXECUTE 'CREATE FUNCTION "lockstep".installation() RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN '
      || quote_literal(gen_random_uuid()) || '::uuid';
  END IF;
END
$do$;


-- digest_of a payload that may be over the limit; `_index` is the index of its job in the push. Refuses the payload if
-- its text is too long (see pushed_digest), or can't be made: Postgres makes no text of more than 1 GB.
CREATE OR REPLACE FUNCTION "lockstep".measured_digest(_payload jsonb, _index bigint) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  _text pg_catalog.text;
BEGIN
  BEGIN
    _text := _payload::text;
  EXCEPTION WHEN program_limit_exceeded THEN
  END;
  IF octet_length(_text) <= 12582912 THEN
    RETURN sha256(convert_to(_text, 'UTF8'));
  END IF;
  RAISE EXCEPTION 'jobs[%].payload must be at most 8 MiB, or 12 MiB with its numbers written out: %', _index,
    'store large data elsewhere and push a reference to it' USING ERRCODE = 'LK002';
END
$$;


-- Microseconds since 1970. Times cross the wire as whole numbers, so that a cursor comes back exact to the microsecond.
CREATE OR REPLACE FUNCTION "lockstep".micros(_at timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (extract(epoch FROM _at) * 1000000)::bigint;


-- What is wrong with a job to be pushed, as the text after `jobs[index].`; NULL if nothing is. The size of the payload
-- is checked where its text is made: it is made once, and for the digest too (see pushed_digest).
CREATE OR REPLACE FUNCTION "lockstep".problem_of(
  _id text,
  _payload jsonb,
  _score double precision,
  _perform_in timestamptz,
  _lane smallint,
  _headers jsonb
) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
  WHEN _id IS NULL OR _id = '' THEN 'id is required and must not be empty'
  WHEN octet_length(_id) > 1024 THEN format('id must be at most 1,024 bytes, not %s', octet_length(_id))
  WHEN _score IN ('NaN', 'Infinity', '-Infinity') THEN 'score must be a finite number'
  WHEN NOT isfinite(_perform_in) OR _perform_in >= '10000-01-01 00:00:00+00'
    THEN 'perform_in must be a finite time before the year 10000'
  WHEN _lane < 0 THEN 'lane must be a whole number from 0 to 32767'
  WHEN jsonb_typeof(_headers) <> 'object' THEN 'headers must be a JSON object'
  WHEN pg_column_size(_headers) > 131072 OR octet_length(_headers::text) > 24576
    THEN 'headers must be at most 16 KiB, or 24 KiB with its numbers written out: put large data into the payload'
END;


-- digest_of the payload of the job with this index in a push. Refuses a payload over the limit. The payload is an
-- element of an array, and those are never compressed.
--
-- The limit applies to the JSON text. The size of the jsonb says little about that: small numbers take six times as
-- many bytes in jsonb, and a large number may have 131,072 digits in 16 bytes. The text that Postgres writes has a
-- space after each comma, so half as much again is allowed: that lets through every payload that might keep to the
-- limit without these spaces. The text of an element never has more than 9,217 bytes for each byte of its jsonb, so a
-- payload below 1,300 bytes can't be over the limit. Making the text is most of the work: for a larger payload it is
-- made once, for both the limit and the digest.
CREATE OR REPLACE FUNCTION "lockstep".pushed_digest(_payload jsonb, _index bigint) RETURNS bytea
LANGUAGE sql STABLE
RETURN CASE
  WHEN pg_column_size(_payload) > 1300 THEN "lockstep".measured_digest(_payload, _index)
  ELSE "lockstep".digest_of(_payload)
END;


-- The shard of an id: always the same for the same number of shards, and evenly spread. It places new rows, and those
-- that rehome moves out of removed shards. So a queue that grows moves nothing.
CREATE OR REPLACE FUNCTION "lockstep".shard_of(_id text, _shards integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (abs(hashtextextended(_id COLLATE "C", 0) % _shards))::integer;


-- A payload as people see it. A payload without headers, as most are, has no key for them.
CREATE OR REPLACE FUNCTION "lockstep".shown_payload(_score double precision, _payload jsonb, _headers jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
RETURN jsonb_build_object('score', _score, 'payload', _payload)
  || CASE WHEN _headers IS NULL THEN '{}' ELSE jsonb_build_object('headers', _headers) END;


-- The earliest due time of a lane, in the form that a wake-up carries: shard:lane:microseconds since 1970.
CREATE OR REPLACE FUNCTION "lockstep".wake_token(_shard integer, _lane smallint, _perform_in timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN _shard || ':' || _lane || ':' || "lockstep".micros(_perform_in);


-- Rejects a bad job with its index and field before anything is stored, whatever the caller's language. The size of a
-- payload shows only when its text is made, for its digest (see pushed_digest).
--
-- Microseconds since 1970 and the dates of other languages can't hold times after the year 9999.
CREATE OR REPLACE FUNCTION "lockstep".check_jobs(
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[],
  _headers jsonb[]
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  _bad pg_catalog.record;
BEGIN
  SELECT i.position - 1 AS index, i.problem INTO _bad
  FROM (
    SELECT t.position, "lockstep".problem_of(t.id, t.payload, t.score, t.perform_in, t.lane, t.headers) AS problem
    FROM unnest(_ids, _payloads, _scores, _perform_ins, _lanes, _headers) WITH ORDINALITY
      AS t(id, payload, score, perform_in, lane, headers, position)
  ) i
  WHERE i.problem IS NOT NULL
  ORDER BY i.position LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'jobs[%].%', _bad.index, _bad.problem USING ERRCODE = 'LK002';
  END IF;
END
$$;


-- Creates a queue if it is missing, and returns its id. An existing queue keeps its number of shards.
-- It looks for the queue first: ON CONFLICT would use up an identity value at every start of every process.
-- It runs with its owner's rights, for the roles that were granted it, as enqueue_many does.
CREATE OR REPLACE FUNCTION "lockstep".create_queue(_name text, _shards integer DEFAULT 16) RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _queue_id integer;
BEGIN
  LOOP
    SELECT q.queue_id INTO _queue_id FROM "lockstep".queues q WHERE q.name = _name;
    IF FOUND THEN
      RETURN _queue_id;
    END IF;
    INSERT INTO "lockstep".queues AS q (name, shards) VALUES (_name, _shards)
    ON CONFLICT (name) DO NOTHING RETURNING q.queue_id INTO _queue_id;
    IF FOUND THEN
      RETURN _queue_id;
    END IF;
  END LOOP;
END
$$;
REVOKE ALL ON FUNCTION "lockstep".create_queue FROM PUBLIC;


-- Pushes one job, for every language that speaks SQL:
--   SELECT "lockstep".enqueue('orders', 'order-1', '{"status": "paid"}');
-- `score` orders the payloads of one id (default: now in ms since 1970). `perform_in` is when the job may start
-- (default: now). `lane` is its class of service (default 0). `headers` is a JSON object that goes with the payload.
--
-- It does what enqueue_many does, with its rights (see there), but in few and short statements: most of what one job
-- costs the server is preparing each statement, and each of its expressions, to run.
--
-- The job row comes first. It is locked from then on, whether or not ON CONFLICT has changed it, so its fence stays the
-- one that the payload goes under. If that is the fence drawn here, the job is new, and its payload can't meet an equal
-- one. If there was no queue, there may be one a moment later, with a job that isn't locked yet, and that may be claimed:
-- so the lookup locks the job, and marks its round as followed by another.
-- (For how it looks up rows, see claim. Both kinds of sorts are off, so that only the primary key can give the ORDER BY
-- t.id of the lookup: the planner can't take jobs_due.)
CREATE OR REPLACE FUNCTION "lockstep".enqueue(
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
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off
AS $$
#variable_conflict use_column
DECLARE
  _queue ALIAS FOR queue;
  _id ALIAS FOR id;
  _payload ALIAS FOR payload;
  _score ALIAS FOR score;
  _perform_in ALIAS FOR perform_in;
  _lane ALIAS FOR lane;
  _headers ALIAS FOR headers;
  _new constant pg_catalog.int8 := nextval('"lockstep".fences');
  _queue_id pg_catalog.int4;
  _shard pg_catalog.int4;
  _fence pg_catalog.int8;
  _due pg_catalog.timestamptz;
  _tid pg_catalog.tid;
  _is_marked pg_catalog.bool;
  _digest pg_catalog.bytea;
BEGIN
  -- A job that is plainly right needs no closer look.
  IF NOT coalesce(octet_length(_id) BETWEEN 1 AND 1024, false) OR NOT abs(_score) < 'Infinity' OR NOT _perform_in BETWEEN '0001-01-01' AND '9999-12-31' OR NOT _lane BETWEEN 0 AND 32767 OR _headers IS NOT NULL
  THEN
    IF _lane NOT BETWEEN 0 AND 32767 THEN
      RAISE EXCEPTION 'jobs[0].lane must be a whole number from 0 to 32767, not %', _lane USING ERRCODE = 'LK002';
    END IF;
    PERFORM "lockstep".check_jobs(ARRAY[_id], ARRAY[_payload], ARRAY[_score], ARRAY[_perform_in], ARRAY[_lane::smallint], ARRAY[_headers]);
  END IF;
  -- See pushed_digest. A payload that comes compressed, from a table, shows nothing of its size.
  IF pg_column_size(_payload) > 1300 OR pg_column_compression(_payload) IS NOT NULL THEN
    _digest := "lockstep".measured_digest(_payload, 0);
  END IF;

  INSERT INTO "lockstep".jobs AS j (queue_id, shard, lane, perform_in, id, fence)
  SELECT q.queue_id, "lockstep".shard_of(_id, q.shards), coalesce(_lane, 0), coalesce(_perform_in, clock_timestamp()), _id, _new
  FROM "lockstep".queues q WHERE q.name = _queue
  ON CONFLICT (queue_id, id) DO UPDATE SET next_perform_in = excluded.perform_in
    WHERE j.claimed_by IS NOT NULL AND j.next_perform_in IS NULL
  RETURNING j.queue_id, j.shard, j.fence, j.perform_in INTO _queue_id, _shard, _fence, _due;

  IF _fence = _new THEN
    INSERT INTO "lockstep".payloads (queue_id, fence, score, job_id, digest, payload, headers)
    VALUES (
      _queue_id, _new, coalesce(_score, extract(epoch FROM clock_timestamp())::double precision * 1000),
      _id, coalesce(_digest, "lockstep".digest_of(coalesce(_payload, '""'))), coalesce(_payload, '""'), _headers
    );
    IF "lockstep".has_listener(_queue_id) THEN
      PERFORM "lockstep".wake(_queue_id, ARRAY["lockstep".wake_token(_shard, coalesce(_lane, 0)::smallint, _due)]);
    END IF;
    RETURN;
  END IF;

  IF NOT FOUND THEN
    SELECT j.queue_id, j.fence, j.tid, j.is_marked INTO _queue_id, _fence, _tid, _is_marked
    FROM "lockstep".queues q CROSS JOIN LATERAL (
      SELECT t.queue_id, t.fence, t.ctid AS tid, t.claimed_by IS NULL OR t.next_perform_in IS NOT NULL AS is_marked
      FROM "lockstep".jobs t
      WHERE t.queue_id = q.queue_id AND t.id >= _id COLLATE "C" AND t.id <= _id COLLATE "C"
      ORDER BY t.id FOR NO KEY UPDATE
    ) j
    WHERE q.name = _queue;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'queue "%" does not exist', left(_queue, 255)
        USING ERRCODE = 'LK001', HINT = 'Start a worker that defines it, or create it: SELECT "lockstep".create_queue(name, shards).';
    END IF;
    IF NOT _is_marked THEN
      UPDATE "lockstep".jobs j SET next_perform_in = coalesce(_perform_in, clock_timestamp())
      WHERE j.queue_id + 0 = _queue_id AND j.ctid = _tid;
    END IF;
  END IF;
  INSERT INTO "lockstep".payloads AS p (queue_id, fence, score, job_id, digest, payload, headers)
  VALUES (
    _queue_id, _fence, coalesce(_score, extract(epoch FROM clock_timestamp())::double precision * 1000),
    _id, coalesce(_digest, "lockstep".digest_of(coalesce(_payload, '""'))), coalesce(_payload, '""'), _headers
  )
  ON CONFLICT (queue_id, job_id, fence, digest) DO UPDATE SET score = excluded.score, seq = excluded.seq
    WHERE excluded.score < p.score;
END
$$;
REVOKE ALL ON FUNCTION "lockstep".enqueue FROM PUBLIC;


-- enqueue, as a part of the caller's transaction or not at all, in one round trip.
--
-- Most calls are in order. So the conditions of require_transaction are tried here first, since calling it is most of
-- what it costs. If one of them fails, require_transaction decides; it also has the reasons.
CREATE OR REPLACE PROCEDURE "lockstep".enqueue_in_transaction(
  _queue text,
  _id text,
  _payload jsonb,
  _score double precision,
  _perform_in timestamptz,
  _lane integer,
  _headers jsonb,
  _installation uuid,
  _database text
)
LANGUAGE plpgsql AS $$
DECLARE
  _refusal pg_catalog.text;
BEGIN
  IF pg_current_xact_id_if_assigned() IS NULL THEN
    BEGIN
      COMMIT;
    EXCEPTION WHEN invalid_transaction_termination THEN
      GET STACKED DIAGNOSTICS _refusal = MESSAGE_TEXT;
    END;
  END IF;
  IF _refusal <> 'invalid transaction termination' OR _installation <> "lockstep".installation()
    OR _database <> current_database() OR current_setting('transaction_read_only')::boolean
  THEN
    CALL "lockstep".require_transaction(_installation, _database);
  END IF;
  PERFORM "lockstep".enqueue(_queue, _id, _payload, _score, _perform_in, _lane, _headers);
END
$$;


-- Pushes jobs. The arrays have one length, and NULL elements stand for the defaults. Returns how many jobs were given.
-- Only new jobs can be due earlier than a worker knows, so only they wake one.
--
-- It runs with its owner's rights, so that a producer needs no rights on any table (see `lockstep roles`). Names, types
-- and operators come from pg_catalog, whatever the caller's search_path or temporary objects are, and only roles that
-- were granted it may call it. No function that it calls may declare a variable of a type without the type's schema:
-- such a function is compiled once per session, perhaps at an earlier call, under the caller's own search_path.
--
-- Both kinds of sorts are off, so that only the primary key can give the ORDER BY t.id of the lookup of new jobs: the
-- planner can't take jobs_due (see claim).
CREATE OR REPLACE FUNCTION "lockstep".enqueue_many(
  _queue text,
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[],
  _headers jsonb[] DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off
AS $$
DECLARE
  _queue_id integer;
  _shards integer;
  _fence bigint;
  _heads text[];
BEGIN
  SELECT q.queue_id, q.shards INTO _queue_id, _shards FROM "lockstep".queues q WHERE q.name = _queue;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'queue "%" does not exist', left(_queue, 255)
      USING ERRCODE = 'LK001', HINT = 'Start a worker that defines it, or create it: SELECT "lockstep".create_queue(name, shards).';
  END IF;
  PERFORM "lockstep".check_jobs(_ids, _payloads, _scores, _perform_ins, _lanes, _headers);
  _fence := "lockstep".push_many(_queue_id, _shards, _ids, _payloads, _scores, _perform_ins, _lanes, _headers);
  IF "lockstep".has_listener(_queue_id) THEN
    SELECT array_agg("lockstep".wake_token(h.shard, h.lane, h.perform_in)) INTO _heads
    FROM (
      SELECT j.shard, j.lane, min(j.perform_in) AS perform_in
      FROM unnest(_ids) AS i(id) CROSS JOIN LATERAL (
        SELECT t.shard, t.lane, t.perform_in FROM "lockstep".jobs t
        WHERE t.queue_id = _queue_id AND t.id >= i.id COLLATE "C" AND t.id <= i.id COLLATE "C"
          AND t.fence = _fence
        ORDER BY t.id LIMIT 1
      ) j
      GROUP BY j.shard, j.lane
    ) h;
    IF cardinality(_heads) > 0 THEN
      PERFORM "lockstep".wake(_queue_id, _heads);
    END IF;
  END IF;
  RETURN cardinality(_ids);
END
$$;
REVOKE ALL ON FUNCTION "lockstep".enqueue_many FROM PUBLIC;


-- enqueue_many, as a part of the caller's transaction with this number, which was asked for when the call began. If the
-- session is in another transaction by now, or in none, nothing is done, and the number is returned as NULL: the client
-- that the caller passed may have been lent to other code meanwhile, and an error would abort the transaction of that
-- code.
--
-- If a number that was given out before is the current one, both statements are of one transaction. With `_shards`, the
-- queue is created if it is missing.
CREATE OR REPLACE PROCEDURE "lockstep".enqueue_many_in_same_transaction(
  INOUT _transaction xid8,
  _queue text,
  _shards integer,
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[],
  _headers jsonb[],
  _installation uuid,
  _database text
)
LANGUAGE plpgsql AS $$
BEGIN
  IF pg_current_xact_id_if_assigned() IS DISTINCT FROM _transaction THEN
    _transaction := NULL;
    RETURN;
  END IF;
  CALL "lockstep".require_transaction(_installation, _database);
  IF _shards IS NOT NULL THEN
    PERFORM "lockstep".create_queue(_queue, _shards);
  END IF;
  PERFORM "lockstep".enqueue_many(_queue, _ids, _payloads, _scores, _perform_ins, _lanes, _headers);
END
$$;


-- enqueue_many, as a part of the caller's transaction or not at all, in one round trip (see require_transaction).
CREATE OR REPLACE PROCEDURE "lockstep".enqueue_many_in_transaction(
  _queue text,
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[],
  _headers jsonb[],
  _installation uuid,
  _database text
)
LANGUAGE plpgsql AS $$
BEGIN
  CALL "lockstep".require_transaction(_installation, _database);
  PERFORM "lockstep".enqueue_many(_queue, _ids, _payloads, _scores, _perform_ins, _lanes, _headers);
END
$$;


-- Whether a worker waits to hear of work in a queue.
--
-- A waiting process holds this advisory lock shared. If the exclusive lock can be had, no process waits. It is released
-- in the same expression: nothing can interrupt the session between the two, and no producer holds it long enough to
-- make a worker wait. A producer that finds another producer testing sends a wake-up too many, which is harmless.
CREATE OR REPLACE FUNCTION "lockstep".has_listener(_queue_id integer) RETURNS boolean
LANGUAGE sql
RETURN NOT CASE
  WHEN pg_try_advisory_lock('"lockstep".queues'::regclass::oid::integer, _queue_id)
    THEN pg_advisory_unlock('"lockstep".queues'::regclass::oid::integer, _queue_id)
  ELSE false
END;


-- Pushes jobs for enqueue_many, which has checked them except for the size of their payloads (see pushed_digest).
-- Returns the fence of the new jobs.
--
-- 1. The job rows come first, in id order, all in one statement. A push that waits for an id has locked nothing behind
--    it, so two pushes can't deadlock, whichever jobs are new, waiting or gone meanwhile. ON CONFLICT locks an existing
--    row, whether or not its WHERE holds, and keeps it locked until the caller commits: no process can claim or
--    complete the job in between, and its fence stays the one that step 3 reads. If an id comes twice, the first one
--    counts.
--    A row in progress gets the start of its next round, once. A waiting row stays as it is: a push neither hastens nor
--    delays it.
-- 2. If all ids are new, as in an import, no other session has rows of theirs: their payloads, under a fence that is
--    new too, can't meet equal ones. That saves a third of the work.
-- 3. Otherwise the payloads go under the fence of their job. If the job waits, that is below the fence of the next
--    claim. If it is in progress, that is the claim's own fence, which the completion spares. Of equal payloads, the
--    headers of the one that was pushed first stay, whichever has the lowest score. The same holds for two in one call.
-- (For how it looks up rows, see claim. Both kinds of sorts are off, so that only the primary key can give the ORDER BY
-- j.id of the lookup in step 3: the planner can't take jobs_due. What no index can give is sorted all the same.)
CREATE OR REPLACE FUNCTION "lockstep".push_many(
  _queue_id integer,
  _shards integer,
  _ids text[],
  _payloads jsonb[],
  _scores double precision[],
  _perform_ins timestamptz[],
  _lanes smallint[],
  _headers jsonb[] DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off
AS $$
DECLARE
  _fence constant pg_catalog.int8 := nextval('"lockstep".fences');
  _new pg_catalog.int8;
BEGIN
  WITH input AS (
    SELECT DISTINCT ON (i.id COLLATE "C") i.id COLLATE "C" AS id,
      coalesce(i.perform_in, clock_timestamp()) AS perform_in, coalesce(i.lane, 0::smallint) AS lane
    FROM unnest(_ids, _perform_ins, _lanes) WITH ORDINALITY AS i(id, perform_in, lane, position)
    ORDER BY i.id COLLATE "C", i.position
  ), put AS (
    INSERT INTO "lockstep".jobs AS j (queue_id, shard, lane, perform_in, id, fence)
    SELECT _queue_id, "lockstep".shard_of(i.id, _shards), i.lane, i.perform_in, i.id, _fence FROM input i
    ON CONFLICT (queue_id, id) DO UPDATE SET next_perform_in = excluded.perform_in
      WHERE j.claimed_by IS NOT NULL AND j.next_perform_in IS NULL
    RETURNING j.fence
  )
  SELECT count(*) INTO _new FROM put WHERE put.fence = _fence;

  IF _new = cardinality(_ids) THEN
    INSERT INTO "lockstep".payloads (queue_id, fence, score, job_id, digest, payload, headers)
    SELECT _queue_id, _fence,
      coalesce(i.score, extract(epoch FROM clock_timestamp())::double precision * 1000), i.id,
      "lockstep".pushed_digest(coalesce(i.payload, '""'), i.position - 1), coalesce(i.payload, '""'), i.headers
    FROM unnest(_ids, _payloads, _scores, _headers) WITH ORDINALITY AS i(id, payload, score, headers, position);
    RETURN _fence;
  END IF;

  IF _headers IS NOT NULL THEN
    SELECT array_agg(f.headers ORDER BY f.position) INTO _headers
    FROM (
      SELECT i.position, first_value(i.headers) OVER (
        PARTITION BY i.id COLLATE "C", "lockstep".digest_of(coalesce(i.payload, '""')) ORDER BY i.position
      ) AS headers
      FROM unnest(_ids, _payloads, _headers) WITH ORDINALITY AS i(id, payload, headers, position)
    ) f;
  END IF;
  INSERT INTO "lockstep".payloads AS p (queue_id, fence, score, job_id, digest, payload, headers)
  SELECT j.queue_id, j.fence, i.score, j.id, i.digest, i.payload, i.headers
  FROM (
    SELECT DISTINCT ON (s.id, s.digest) s.*
    FROM (
      SELECT i.id COLLATE "C" AS id, i.position, coalesce(i.payload, '""') AS payload, "lockstep".pushed_digest(coalesce(i.payload, '""'), i.position - 1) AS digest,
        coalesce(i.score, extract(epoch FROM clock_timestamp())::double precision * 1000) AS score, i.headers
      FROM unnest(_ids, _payloads, _scores, _headers) WITH ORDINALITY AS i(id, payload, score, headers, position)
    ) s
    ORDER BY s.id, s.digest, s.score, s.position
  ) i
  CROSS JOIN LATERAL (
    SELECT j.queue_id, j.fence, j.id FROM "lockstep".jobs j
    WHERE j.queue_id = _queue_id AND j.id >= i.id AND j.id <= i.id
    ORDER BY j.id LIMIT 1
  ) j
  ORDER BY i.position
  ON CONFLICT (queue_id, job_id, fence, digest) DO UPDATE SET score = excluded.score, seq = excluded.seq
    WHERE excluded.score < p.score;
  RETURN _fence;
END
$$;


-- Aborts the transaction with this number, if the session is in it: a call has stored a part of its jobs there and
-- can't store the rest. Leaves any other transaction alone.
CREATE OR REPLACE PROCEDURE "lockstep".refuse_transaction(_transaction xid8)
LANGUAGE plpgsql AS $$
BEGIN
  IF pg_current_xact_id_if_assigned() = _transaction THEN
    RAISE EXCEPTION 'a part of a call''s jobs could not be stored, so the transaction may not be committed with the others'
      USING ERRCODE = 'LK034';
  END IF;
END
$$;


-- Goes on only in a transaction that was begun explicitly, and in the given database, if one is given. What is pushed
-- as a part of the caller's transaction must not be committed by itself, nor lie where none of the caller's workers
-- looks for it.
--
-- No statement can see by itself whether it is in a transaction block. Its time differs from its transaction's time
-- outside of a block, too, since drivers send each statement in three messages, each with a time of its own. But a
-- transaction that has written has a number, and a procedure may COMMIT only outside of a block. So if there is no
-- number yet, a COMMIT is tried, in an exception block. There it is refused in either case, so it does nothing; in a
-- transaction block, that block is the reason given. A DO inside of EXECUTE, which may never commit, shows how the
-- server's language words that reason.
--
-- So this procedure must be called by CALL, from procedures that are called by CALL themselves: none of them can have
-- SET, nor its owner's rights.
CREATE OR REPLACE PROCEDURE "lockstep".require_transaction(_installation uuid DEFAULT NULL, _database text DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
  _in_a_block pg_catalog.text := 'invalid transaction termination';
  _refusal pg_catalog.text;
BEGIN
  IF _installation <> "lockstep".installation() OR _database <> current_database() THEN
    RAISE EXCEPTION 'the transaction is in database "%" on %, not in that of its Lockstep', current_database(),
      coalesce(host(inet_server_addr()) || ':' || inet_server_port(), 'a local socket')
      USING ERRCODE = 'LK014', HINT = 'Pass a transaction of that database, or enqueue through a Lockstep of this one.';
  END IF;
  -- On a replica every transaction is read-only: there, the push itself says so.
  IF current_setting('transaction_read_only')::boolean AND NOT pg_is_in_recovery() THEN
    RAISE EXCEPTION 'the transaction is READ ONLY'
      USING ERRCODE = 'LK024', HINT = 'Begin it with: BEGIN READ WRITE; see default_transaction_read_only, too.';
  END IF;
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RETURN;
  END IF;
  BEGIN
    COMMIT;
  EXCEPTION WHEN invalid_transaction_termination THEN
    GET STACKED DIAGNOSTICS _refusal = MESSAGE_TEXT;
  END;
  IF _refusal <> _in_a_block THEN
    BEGIN
      EXECUTE 'DO $do$ BEGIN COMMIT; END $do$';
    EXCEPTION WHEN invalid_transaction_termination THEN
      GET STACKED DIAGNOSTICS _in_a_block = MESSAGE_TEXT;
    END;
    IF _refusal <> _in_a_block THEN
      RAISE EXCEPTION 'there is no transaction: none was begun, or it has ended'
        USING ERRCODE = 'LK004', HINT = 'BEGIN first, and push before COMMIT.';
    END IF;
  END IF;
END
$$;


-- Tells waiting workers of work when the caller commits.
--
-- A NOTIFY makes commits queue up behind each other, so a push sends one only while a worker waits (has_listener). A
-- full notification queue would make the caller's COMMIT fail, so none is sent once the queue is half full: then
-- polling has to do. A transaction that has notified can't be prepared (two-phase commit): SET LOCAL lockstep.wake =
-- off leaves the jobs to the workers' next look.
CREATE OR REPLACE FUNCTION "lockstep".wake(_queue_id integer, _heads text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  _message constant pg_catalog.text := _queue_id || ' ' || array_to_string(_heads, ' ');
BEGIN
  IF lower(current_setting('lockstep.wake', true)) IN ('off', 'false', 'no', '0') THEN
    RETURN;
  END IF;
  IF pg_notification_queue_usage() < 0.5 THEN
    PERFORM pg_notify('lockstep', CASE WHEN octet_length(_message) < 7900 THEN _message ELSE _queue_id::text END);
  END IF;
END
$$;


-- R7, for jobs whose rows the caller has locked. The payload with the lowest score below the fence goes to the morgue,
-- with all equal ones below the fence. What is left of the failed round waits with a clean count, due now, united with
-- what was pushed meanwhile. If nothing is left of it, what was pushed meanwhile waits alone, until its own time (R3):
-- a payload that was scheduled does not start earlier because another one died. A job with neither is deleted: no push
-- can come in between, since it would need the row's lock. The error stays until the next success: it says how the last
-- round of the id ended.
-- Rows of the morgue are locked in key order, as everywhere.
-- Both kinds of sorts are off, so that only the primary key can give the ORDER BY t.id of both lookups of jobs: the
-- planner can't take jobs_due (see claim). What no index can give, such as the lowest score, is sorted all the same.
CREATE OR REPLACE FUNCTION "lockstep".bury_lowest(
  _queue_ids integer[],
  _ids text[],
  _fences bigint[],
  _errors text[],
  _dying integer[]
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off
AS $$
#variable_conflict use_column
DECLARE
  _owners integer[];
  _tids tid[];
  _places integer[];
  _dues timestamptz[];
BEGIN
  WITH lowest AS MATERIALIZED (
    SELECT l.*, d.place FROM unnest(_dying) AS d(place)
    CROSS JOIN LATERAL (
      SELECT p.queue_id, p.job_id, p.digest, p.score, p.payload, (
        SELECT e.headers FROM "lockstep".payloads e
        WHERE e.queue_id = p.queue_id AND e.job_id = p.job_id AND e.fence < _fences[d.place] AND e.digest = p.digest
        ORDER BY e.fence LIMIT 1
      ) AS headers FROM "lockstep".payloads p
      WHERE p.queue_id = _queue_ids[d.place] AND p.job_id = _ids[d.place] AND p.fence < _fences[d.place]
      ORDER BY p.score, p.seq LIMIT 1
    ) l
  ), gone AS (
    DELETE FROM "lockstep".payloads p
    USING lowest l CROSS JOIN LATERAL (
      SELECT t.ctid AS tid FROM "lockstep".payloads t
      WHERE t.queue_id = l.queue_id AND t.job_id = l.job_id AND t.fence < _fences[l.place] AND t.digest = l.digest
      OFFSET 0
    ) e
    WHERE p.queue_id + 0 = l.queue_id AND p.ctid = e.tid
  )
  INSERT INTO "lockstep".morgue AS m (queue_id, shard, job_id, digest, score, payload, headers, error, died_at)
  SELECT l.queue_id, j.shard, l.job_id, l.digest, l.score, l.payload, l.headers, _errors[l.place], clock_timestamp()
  FROM lowest l CROSS JOIN LATERAL (
    SELECT t.shard FROM "lockstep".jobs t
    WHERE t.queue_id = l.queue_id AND t.id >= l.job_id AND t.id <= l.job_id ORDER BY t.id LIMIT 1
  ) j
  ORDER BY l.queue_id, l.job_id, l.digest
  ON CONFLICT (queue_id, job_id, digest) DO UPDATE SET
    score = least(m.score, excluded.score), error = excluded.error, died_at = excluded.died_at;

  SELECT array_agg(h.queue_id), array_agg(h.tid), array_agg(d.place), array_agg(h.due) INTO _owners, _tids, _places, _dues
  FROM unnest(_dying) AS d(place) CROSS JOIN LATERAL (
    SELECT t.queue_id, t.ctid AS tid,
      CASE
        WHEN (SELECT true FROM "lockstep".payloads p
              WHERE p.queue_id = t.queue_id AND p.job_id = t.id AND p.fence < _fences[d.place] LIMIT 1)
          THEN clock_timestamp()
        ELSE t.next_perform_in
      END AS due
    FROM "lockstep".jobs t
    WHERE t.queue_id = _queue_ids[d.place] AND t.id >= _ids[d.place] COLLATE "C" AND t.id <= _ids[d.place] COLLATE "C"
    ORDER BY t.id LIMIT 1
  ) h;
  RETURN QUERY
  UPDATE "lockstep".jobs j SET
    retry_count = -1, perform_in = d.due, error = _errors[d.place],
    next_perform_in = NULL, crashes = 0, claimed_by = NULL, claimed_at = NULL
  FROM unnest(_owners, _tids, _places, _dues) AS d(queue_id, tid, place, due)
  WHERE j.queue_id + 0 = d.queue_id AND j.ctid = d.tid AND d.due IS NOT NULL
  RETURNING j.queue_id, j.id, 'again', j.shard, j.lane, "lockstep".micros(j.perform_in);

  DELETE FROM "lockstep".jobs j USING unnest(_owners, _tids, _dues) AS d(queue_id, tid, due)
  WHERE j.queue_id + 0 = d.queue_id AND j.ctid = d.tid AND d.due IS NULL;
END
$$;


-- Claims the next due jobs of each lane for a process. Returns for the lane at each `place`: a row for each payload,
-- those of a job together, and then a row without a fence, whose perform_in is that of the next job to come (NULL: none
-- known). What describes a job counts in its first row, the only one with an id. If retry_count, crashes, rescued and
-- error are NULL there, they are those of a job that has never run. Times are in microseconds since 1970. A lane's
-- cursor is the place of the last job taken from it before, or, with an empty id, a time that was reported. In the
-- latter case, or if this claim takes nothing from the lane, the next job to come is looked for from the cursor on. So
-- it may be one that was passed over because its row was locked: `cut` says whether it lies before the last one taken.
-- Otherwise it is looked for behind the last one taken: from the cursor on, all rows that were just taken would be read
-- again.
--
-- A paused queue gives nothing. A process that others have removed gets nothing: any other process could take its claim
-- at once. That is checked here because a process that was frozen is the last to know of its removal. If it is removed
-- at this very moment, the claim comes to nothing: the remover knows that the lease is over by the removed process's
-- own clock. So that process begins nothing, and others may have the rows at once.
--
-- Before the first claim of a session, note_timeline makes fences continue above those of the server's past.
--
-- A claim is committed so that a crash of the server doesn't forget it, whatever the default of synchronous_commit is:
-- otherwise another process would take it while its handler runs. It is set even if the default will do, because the
-- server may be given another default before the COMMIT, which comes in a message of its own. The setting lasts until
-- the end of the transaction, so that it reaches no other client, even behind a pooler.
--
-- 1. Lock due rows in (perform_in, id) order, from the cursor on. Rows that a producer's open transaction holds are
--    skipped, not waited for. A row can be claimed if no process has claimed it, or if the process that has is gone.
--    They come lane by lane in the order of the call, since each LATERAL subquery needs the lane: so their places
--    ascend.
--    A job that was in progress when its process died may be what killed it, so it is taken alone. (A statement of its
--    own sees to that, as such jobs are rare: a window over all rows would make every claim slower.)
-- 2. Only now draw the fence, which all these rows share. A fence drawn before the locks could be smaller than one
--    given out in between, and payloads pushed under that one would be missed. If the fence is not above those of the
--    locked rows, the sequence is behind its rows, as after a restore or a failover: the round would find no payload
--    below it, and its completion would delete the job as done. So nothing is claimed until an administrator sets the
--    sequence. If this function set it, two sessions that did so at once could set it back.
--    Clearing next_perform_in says that this round takes everything that was pushed so far.
--    No other session can move a locked row, so its ctid finds it: within its partition, if the table has been
--    partitioned by queue, so the queue stands beside each ctid. (As queue_id + 0, or the planner might take an index
--    on it instead.) If all lanes are of one queue, as they mostly are, one scan finds all rows.
-- 3. In a later statement, with a newer snapshot, read the payloads below the fence. The locking statement's own
--    snapshot may be older than a push whose commit let us lock the row: its payload would not be handed over, and the
--    completion would delete it unseen. The payloads come as they lie there: sorting them, and folding equal ones of
--    several rounds, is the client's part, except if a number of payloads limits the round (see payloads_of_round).
-- 4. The answer carries no more than `_budget` bytes of payloads. A round that is left out, because it did not fit or
--    is longer than its own `_max_bytes`, is `passed`: it has been claimed, but what came of its payloads does not
--    count, and load_payloads brings them. So what is too much for a client or its connection is asked for only after
--    the claim has been committed: if the client dies of it, its crash is counted (R10), and other rounds are not held
--    up by it. Payloads are turned into text one by one, and none after the budget is used up: a large one is stored
--    compressed and in pieces, so its true size is known only once it has been put together. (In a loop, since a query
--    that adds up sizes would put all of them together.) However short, a payload counts as 64 bytes: a row costs a
--    client more than its text.
--
-- Scores come as text with all their digits, whatever the session's extra_float_digits is, so that they come back as
-- exactly what was taken.
--
-- Plans are made once and kept while tables grow from nothing to millions, so no statement may have a plan that looks
-- good only for a small table. Worse, if an ANALYZE finds no live rows, the planner takes the tables for empty, while
-- their indexes are full of dead rows that some open transaction may still see: reading a whole index seems as good as
-- a probe. So the planner is left nothing but probes, here and in all functions that workers and producers call. The
-- settings rule out other kinds of scans and joins. Rows are looked up by a LATERAL subquery: with OFFSET 0 or a lock,
-- the planner can't merge it into the join and turn that around. If both indexes of the jobs have the columns, the
-- order asked for, which no sort may bring about, leaves only the primary key: id >= x AND id <= x ORDER BY id. (If the
-- condition were id = x, either index would give that order.) In the same way, ORDER BY perform_in, id leaves this
-- function only jobs_due, for the due rows and for the next job to come.
CREATE OR REPLACE FUNCTION "lockstep".claim(
  _process_id integer,
  _queue_ids integer[],
  _shards integer[],
  _lanes smallint[],
  _counts integer[],
  _max_payloads integer[],
  _max_bytes integer[],
  _after bigint[],
  _after_ids text[],
  _budget bigint
) RETURNS TABLE (
  place integer, id text, fence bigint, perform_in bigint, retry_count integer, crashes smallint, rescued boolean,
  error text, payload text, headers text, score text, seq bigint, cut boolean, passed boolean
)
LANGUAGE plpgsql
SET extra_float_digits = 1
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off
AS $$
DECLARE
  _now constant timestamptz := clock_timestamp();
  _places integer[];
  _tids tid[];
  _ids text[];
  _fence bigint;
  _highest bigint;
  _claimed integer;
  _perform_ins timestamptz[];
  _retry_counts integer[];
  _crashes integer[];
  _errors text[];
  _rescued boolean[];
  _suspects boolean;
  _have_run boolean;
  _n integer;
  _last integer := 0;
  _floor bigint;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM "lockstep".require_read_committed();
  END IF;
  PERFORM set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true);
  IF current_setting('lockstep.timeline_noted', true) IS DISTINCT FROM '"lockstep"' THEN
    PERFORM "lockstep".note_timeline();
    PERFORM set_config('lockstep.timeline_noted', '"lockstep"', false);
  END IF;
  PERFORM FROM "lockstep".processes p WHERE p.process_id = _process_id;
  IF NOT FOUND THEN
    RETURN;
  END IF;

  SELECT array_agg(w.place), array_agg(d.ctid), array_agg(d.id), array_agg(d.perform_in), array_agg(d.retry_count),
    array_agg(d.crashes), array_agg(d.error), array_agg(d.claimed_by IS NOT NULL), max(d.fence),
    bool_or(d.claimed_by IS NOT NULL OR d.crashes > 0),
    bool_or(d.retry_count >= 0 OR d.error IS NOT NULL)
  INTO _places, _tids, _ids, _perform_ins, _retry_counts, _crashes, _errors, _rescued, _highest, _suspects, _have_run
  FROM unnest(_queue_ids, _shards, _lanes, _counts, _after, _after_ids)
    WITH ORDINALITY AS w(queue_id, shard, lane, count, after, after_id, place)
  CROSS JOIN LATERAL (SELECT FROM "lockstep".queues q WHERE q.queue_id = w.queue_id AND q.paused_at IS NULL OFFSET 0) q
  CROSS JOIN LATERAL (
    SELECT j.ctid, j.id, j.perform_in, j.retry_count, j.crashes::integer, j.error, j.claimed_by, j.fence
    FROM "lockstep".jobs j
    WHERE j.queue_id = w.queue_id AND j.shard = w.shard AND j.lane = w.lane
      AND j.perform_in <= _now AND (j.perform_in, j.id) > ("lockstep".from_micros(w.after), w.after_id)
      AND CASE
        WHEN j.claimed_by IS NULL THEN true
        WHEN j.claimed_by = _process_id THEN false
        ELSE "lockstep".is_gone(j.claimed_by)
      END
    ORDER BY j.perform_in, j.id
    LIMIT w.count
    FOR UPDATE SKIP LOCKED
  ) d;
  IF _suspects THEN
    SELECT array_agg(s.place), array_agg(s.tid), array_agg(s.id), array_agg(s.perform_in), array_agg(s.retry_count),
      array_agg(s.crashes), array_agg(s.error), array_agg(s.rescued)
    INTO _places, _tids, _ids, _perform_ins, _retry_counts, _crashes, _errors, _rescued
    FROM (
      SELECT t.*, row_number() OVER lane AS nth, bool_or(t.rescued OR t.crashes > 0) OVER lane AS suspect
      FROM unnest(_places, _tids, _ids, _perform_ins, _retry_counts, _crashes, _errors, _rescued) WITH ORDINALITY
        AS t(place, tid, id, perform_in, retry_count, crashes, error, rescued, n)
      WINDOW lane AS (PARTITION BY t.place ORDER BY t.n)
    ) s
    WHERE s.nth = 1 OR NOT s.suspect;
  END IF;

  IF _ids IS NOT NULL THEN
    _fence := nextval('"lockstep".fences');
    IF _fence <= _highest THEN
      RAISE EXCEPTION 'the sequence of fences is behind its rows (% after %), as after a restore or a failover', _fence, _highest
        USING ERRCODE = 'LK005', HINT = 'run: SELECT setval(''"lockstep".fences'', greatest((SELECT last_value FROM "lockstep".fences), (SELECT max(fence) FROM "lockstep".jobs)))';
    END IF;
    IF _queue_ids[1] = ALL (_queue_ids) THEN
      UPDATE "lockstep".jobs j SET
        fence = _fence, claimed_by = _process_id, claimed_at = clock_timestamp(),
        next_perform_in = NULL, crashes = j.crashes + (j.claimed_by IS NOT NULL)::integer
      WHERE j.queue_id + 0 = _queue_ids[1] AND j.ctid = ANY (_tids);
    ELSE
      UPDATE "lockstep".jobs j SET
        fence = _fence, claimed_by = _process_id, claimed_at = clock_timestamp(),
        next_perform_in = NULL, crashes = j.crashes + (j.claimed_by IS NOT NULL)::integer
      FROM unnest(_places, _tids) AS r(place, tid)
      WHERE j.queue_id + 0 = _queue_ids[r.place] AND j.ctid = r.tid;
    END IF;
    GET DIAGNOSTICS _claimed = ROW_COUNT;
    IF _claimed <> cardinality(_ids) THEN
      RAISE EXCEPTION 'a job that was locked could not be claimed: is there a trigger or a policy on the table of jobs?';
    END IF;

    fence := _fence;
    FOR _n, payload, headers, score, seq, cut IN
      SELECT c.n::integer, p.payload, p.headers, p.score::text, p.seq, NULL::boolean
      FROM unnest(_places, _ids) WITH ORDINALITY AS c(place, id, n)
      LEFT JOIN LATERAL (
        SELECT p.payload, p.headers, p.score, p.seq FROM "lockstep".payloads p
        WHERE p.queue_id = _queue_ids[c.place] AND p.job_id = c.id AND p.fence < _fence
        OFFSET 0
      ) p ON true
      WHERE _max_payloads[c.place] IS NULL
      UNION ALL
      SELECT c.n::integer, p.payload, p.headers, p.score::text, p.seq, p.cut
      FROM unnest(_places, _ids) WITH ORDINALITY AS c(place, id, n)
      LEFT JOIN LATERAL "lockstep".payloads_of_round(
        _queue_ids[c.place], c.id, _fence, _max_payloads[c.place], _max_bytes[c.place]
      ) p ON true
      WHERE _max_payloads[c.place] IS NOT NULL AND cardinality(array_remove(_max_payloads, NULL)) > 0
    LOOP
      IF _n <> _last THEN
        _last := _n;
        place := _places[_n];
        id := _ids[_n];
        perform_in := "lockstep".micros(_perform_ins[_n]);
        passed := NULL;
        _floor := greatest(_budget - _max_bytes[place], 0);
        IF _have_run OR _suspects THEN
          retry_count := _retry_counts[_n];
          crashes := _crashes[_n] + _rescued[_n]::integer;
          rescued := _rescued[_n];
          error := _errors[_n];
        END IF;
      ELSIF passed OR id IS NOT NULL THEN
        CONTINUE WHEN passed;
        id := NULL;
        perform_in := NULL;
      END IF;
      _budget := _budget - greatest(octet_length(payload) + coalesce(octet_length(headers), 0), 64);
      IF _budget < _floor THEN
        payload := NULL;
        headers := NULL;
        passed := true;
        RETURN NEXT;
        EXIT WHEN _budget < 0;
        CONTINUE;
      END IF;
      RETURN NEXT;
    END LOOP;

    IF _budget < 0 THEN
      RETURN QUERY
      SELECT c.place, c.id, _fence, "lockstep".micros(c.perform_in), c.retry_count,
        (c.crashes + c.rescued::integer)::smallint, c.rescued, c.error, NULL, NULL, NULL, NULL::bigint, false, true
      FROM unnest(_places, _ids, _perform_ins, _retry_counts, _crashes, _rescued, _errors) WITH ORDINALITY
        AS c(place, id, perform_in, retry_count, crashes, rescued, error, n)
      WHERE (_max_payloads[c.place] IS NOT NULL, c.n) > (_max_payloads[_places[_last]] IS NOT NULL, _last);
    END IF;
  END IF;

  RETURN QUERY
  SELECT w.place::integer, NULL, NULL::bigint, "lockstep".micros(h.perform_in), NULL::integer, NULL::smallint,
    NULL::boolean, NULL, NULL, NULL, NULL, NULL::bigint,
    coalesce((h.perform_in, h.id) < (_perform_ins[t.n], _ids[t.n]), false), NULL::boolean
  FROM unnest(_queue_ids, _shards, _lanes, _after, _after_ids) WITH ORDINALITY
    AS w(queue_id, shard, lane, after, after_id, place)
  JOIN "lockstep".queues q ON q.queue_id = w.queue_id AND q.paused_at IS NULL
  LEFT JOIN LATERAL (SELECT width_bucket(w.place::integer, _places) AS n OFFSET 0) t ON _places[t.n] = w.place
  LEFT JOIN LATERAL (
    SELECT j.perform_in, j.id FROM "lockstep".jobs j
    WHERE j.queue_id = w.queue_id AND j.shard = w.shard AND j.lane = w.lane AND j.claimed_by IS NULL
      AND (j.perform_in, j.id) > (
        CASE WHEN t.n IS NULL OR w.after_id = '' THEN "lockstep".from_micros(w.after) ELSE _perform_ins[t.n] END,
        CASE WHEN t.n IS NULL OR w.after_id = '' THEN w.after_id ELSE _ids[t.n] END
      )
    ORDER BY j.perform_in, j.id LIMIT 1
  ) h ON true;
END
$$;


-- Ends rounds that succeeded: deletes their payloads, and the job too, unless something was pushed meanwhile: then the
-- next round waits. Returns only the exceptions: jobs that wait `again`, and those that are `held` or `lost`.
--
-- The payloads to delete are those below the fence: what the claim read, and nothing newer. If maxPayloads or maxBytes
-- left some to the next round, they are those up to the last one taken (`_cut_*`; NULL if none were left), with all
-- equal ones. Their ctids find them: no other session moves payloads below the fence of a job whose row we have locked.
-- Whether another round follows is read from the locked job row, not from the payloads: there, this statement would not
-- see what a producer commits after its snapshot.
CREATE OR REPLACE FUNCTION "lockstep".complete(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _cut_scores double precision[],
  _cut_seqs bigint[],
  _wait boolean
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
  _places integer[];
  _owners integer[];
  _tids tid[];
  _last integer[];
  _last_tids tid[];
  _more integer[];
  _more_tids tid[];
BEGIN
  SELECT array_agg(h.place),
    array_agg(h.place) FILTER (WHERE NOT h.again AND _cut_seqs[h.place] IS NULL),
    array_agg(h.tid) FILTER (WHERE NOT h.again AND _cut_seqs[h.place] IS NULL),
    array_agg(h.place) FILTER (WHERE h.again OR _cut_seqs[h.place] IS NOT NULL),
    array_agg(h.tid) FILTER (WHERE h.again OR _cut_seqs[h.place] IS NOT NULL)
  INTO _places, _last, _last_tids, _more, _more_tids
  FROM "lockstep".lock_rounds(_queue_ids, _process_id, _ids, _fences, _wait) h;

  SELECT array_agg(r.queue_id), array_agg(g.tid) INTO _owners, _tids
  FROM unnest(_queue_ids, _ids, _fences, _cut_scores, _cut_seqs)
    WITH ORDINALITY AS r(queue_id, id, fence, cut_score, cut_seq, place)
  CROSS JOIN LATERAL (
    SELECT t.ctid AS tid FROM "lockstep".payloads t
    WHERE t.queue_id = r.queue_id AND t.job_id = r.id AND t.fence < r.fence
      AND CASE WHEN r.cut_seq IS NULL THEN true ELSE t.digest IN (
        SELECT d.digest FROM "lockstep".payloads d
        WHERE d.queue_id = r.queue_id AND d.job_id = r.id AND d.fence < r.fence
          AND (d.score, d.seq) <= (r.cut_score, r.cut_seq)
      ) END
    OFFSET 0
  ) g
  WHERE cardinality(_places) = cardinality(_ids) OR r.place = ANY (_places);
  IF _queue_ids[1] = ALL (_queue_ids) THEN
    DELETE FROM "lockstep".payloads p WHERE p.queue_id + 0 = _queue_ids[1] AND p.ctid = ANY (_tids);
    DELETE FROM "lockstep".jobs j WHERE j.queue_id + 0 = _queue_ids[1] AND j.ctid = ANY (_last_tids);
  ELSE
    DELETE FROM "lockstep".payloads p USING unnest(_owners, _tids) AS r(queue_id, tid)
    WHERE p.queue_id + 0 = r.queue_id AND p.ctid = r.tid;
    DELETE FROM "lockstep".jobs j USING unnest(_last, _last_tids) AS r(place, tid)
    WHERE j.queue_id + 0 = _queue_ids[r.place] AND j.ctid = r.tid;
  END IF;

  IF _more IS NOT NULL THEN
    RETURN QUERY
    UPDATE "lockstep".jobs j SET
      perform_in = CASE WHEN _cut_seqs[r.place] IS NULL THEN j.next_perform_in ELSE clock_timestamp() END,
      next_perform_in = NULL, retry_count = -1, crashes = 0, error = NULL, claimed_by = NULL, claimed_at = NULL
    FROM unnest(_more, _more_tids) AS r(place, tid)
    WHERE j.queue_id + 0 = _queue_ids[r.place] AND j.ctid = r.tid
    RETURNING j.queue_id, j.id, 'again', j.shard, j.lane, "lockstep".micros(j.perform_in);
  END IF;
  IF cardinality(_places) IS DISTINCT FROM cardinality(_ids) THEN
    RETURN QUERY SELECT * FROM "lockstep".unsettled(_queue_ids, _process_id, _ids, _fences, _places);
  END IF;
END
$$;


-- Ends rounds that failed (R4, R6, R7): all payloads of the id wait again, including those pushed meanwhile.
-- `_retry_ins` are seconds from now. NULL means that the retries are used up, and that the failed round's payload with
-- the lowest score dies. An equal payload that was pushed meanwhile lies at the fence itself and lives on.
-- Returns jobs that wait `again`, and those that are `held` or `lost`. An id that is not among them is gone.
CREATE OR REPLACE FUNCTION "lockstep".fail(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _errors text[],
  _retry_ins double precision[],
  _wait boolean
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
  _places integer[];
  _tids tid[];
  _dying integer[];
BEGIN
  SELECT array_agg(h.place), array_agg(h.tid), array_agg(h.place) FILTER (WHERE _retry_ins[h.place] IS NULL)
  INTO _places, _tids, _dying
  FROM "lockstep".lock_rounds(_queue_ids, _process_id, _ids, _fences, _wait) h;

  RETURN QUERY
  UPDATE "lockstep".jobs j SET
    retry_count = j.retry_count + 1, perform_in = clock_timestamp() + make_interval(secs => _retry_ins[r.place]),
    error = _errors[r.place], next_perform_in = NULL, crashes = 0, claimed_by = NULL, claimed_at = NULL
  FROM unnest(_places, _tids) AS r(place, tid)
  WHERE j.queue_id + 0 = _queue_ids[r.place] AND j.ctid = r.tid AND _retry_ins[r.place] IS NOT NULL
  RETURNING j.queue_id, j.id, 'again', j.shard, j.lane, "lockstep".micros(j.perform_in);

  IF _dying IS NOT NULL THEN
    RETURN QUERY SELECT * FROM "lockstep".bury_lowest(_queue_ids, _ids, _fences, _errors, _dying);
  END IF;
  IF cardinality(_places) IS DISTINCT FROM cardinality(_ids) THEN
    RETURN QUERY SELECT * FROM "lockstep".unsettled(_queue_ids, _process_id, _ids, _fences, _places);
  END IF;
END
$$;


-- Whether the process that claimed a row is gone: its row has been removed, by itself or by others (see remove_silent).
-- From then on its claims are free. No clock of the server decides that, because such a clock may be set.
--
-- A number is never given out again, and a process is registered before it claims. So "gone" is final, if the question
-- is about a claim that is in the row. Therefore each call sees what was committed before it (VOLATILE), instead of
-- using the snapshot of the statement that calls it. That statement may have waited for the row, and find it claimed by
-- a process that has registered since: in the statement's snapshot, no process has this number.
CREATE OR REPLACE FUNCTION "lockstep".is_gone(_process_id integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM FROM "lockstep".processes p WHERE p.process_id = _process_id;
  RETURN NOT FOUND;
END
$$;


-- The payloads of a round that has been claimed but not handed over (see claim), read just before it begins. One row at
-- the end says `lost` if the process no longer holds the claim.
--
-- That is checked after the payloads were read: a process that takes a claim over has committed that before any payload
-- is deleted. So if the round is still held now, none was deleted before the read. Nothing is locked: a producer's open
-- transaction may hold the row, and what is pushed meanwhile lies at the fence.
--
-- The settings are those of claim: payloads_of_round has none of its own, and a session keeps the plans made under those of
-- its first caller. Without sorts, ORDER BY id can come only from the primary key.
CREATE OR REPLACE FUNCTION "lockstep".load_payloads(
  _queue_id integer,
  _process_id integer,
  _id text,
  _fence bigint,
  _max_payloads integer,
  _max_bytes integer
) RETURNS TABLE (payload text, headers text, score text, seq bigint, cut boolean, lost boolean)
LANGUAGE plpgsql
SET extra_float_digits = 1
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off
AS $$
BEGIN
  PERFORM "lockstep".require_read_committed();
  RETURN QUERY
  SELECT p.payload::text, p.headers::text, p.score::text, p.seq, p.cut, false
  FROM "lockstep".payloads_of_round(_queue_id, _id, _fence, _max_payloads, _max_bytes) p;
  PERFORM FROM "lockstep".jobs j
  WHERE j.queue_id = _queue_id AND j.id >= _id COLLATE "C" AND j.id <= _id COLLATE "C"
    AND j.fence = _fence AND j.claimed_by = _process_id
  ORDER BY j.id;
  IF NOT FOUND THEN
    RETURN QUERY SELECT NULL, NULL, NULL, NULL::bigint, false, true;
  END IF;
END
$$;


-- Locks the rows of rounds that a process still holds, and says which those are. The fence and the process are checked
-- again on the newest version of each row: a lost claim can't complete, fail or delay anything.
-- Rows that a producer's open transaction has locked are left out, unless `_wait` is set: then the caller has set a
-- lock_timeout. A crash of the server must not forget how a round ended, whatever the default of synchronous_commit is,
-- or whatever the handler has set it to: the row would be claimed as before, by a process that lives and knows nothing
-- of it, until that process ends. No other session can move a locked row: until the transaction ends, its ctid finds
-- it.
-- (For how it looks up rows, see claim. Both kinds of sorts are off, so that only the primary key can give the ORDER BY
-- j.id of both lookups: the planner can't take jobs_due. With `_wait`, the rounds are sorted into the order of locking
-- all the same, since no index can give it.)
CREATE OR REPLACE FUNCTION "lockstep".lock_rounds(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _wait boolean
) RETURNS TABLE (place integer, tid tid, again boolean)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET enable_incremental_sort = off
AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM "lockstep".require_read_committed();
  END IF;
  PERFORM set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true);
  IF _wait THEN
    RETURN QUERY
    SELECT r.place, h.tid, h.again
    FROM (
      SELECT u.queue_id, u.id COLLATE "C" AS id, u.fence, u.place::integer
      FROM unnest(_queue_ids, _ids, _fences) WITH ORDINALITY AS u(queue_id, id, fence, place)
      ORDER BY u.queue_id, u.id COLLATE "C"
    ) r
    CROSS JOIN LATERAL (
      SELECT j.ctid AS tid, j.next_perform_in IS NOT NULL AS again FROM "lockstep".jobs j
      WHERE j.queue_id = r.queue_id AND j.id >= r.id AND j.id <= r.id
        AND j.fence = r.fence AND j.claimed_by = _process_id
      ORDER BY j.id FOR UPDATE
    ) h;
  ELSE
    RETURN QUERY
    SELECT r.place::integer, h.tid, h.again
    FROM unnest(_queue_ids, _ids, _fences) WITH ORDINALITY AS r(queue_id, id, fence, place)
    CROSS JOIN LATERAL (
      SELECT j.ctid AS tid, j.next_perform_in IS NOT NULL AS again FROM "lockstep".jobs j
      WHERE j.queue_id = r.queue_id AND j.id >= r.id COLLATE "C" AND j.id <= r.id COLLATE "C"
        AND j.fence = r.fence AND j.claimed_by = _process_id
      ORDER BY j.id FOR UPDATE SKIP LOCKED
    ) h;
  END IF;
END
$$;


-- The next job to come of each lane, from its cursor on: the cheap look.
-- Sorts are off, so that only jobs_due can give ORDER BY perform_in, id: the planner can't take the primary key, which
-- would have the whole queue read (see claim).
CREATE OR REPLACE FUNCTION "lockstep".look(
  _queue_ids integer[],
  _shards integer[],
  _lanes smallint[],
  _after bigint[],
  _after_ids text[]
) RETURNS TABLE (queue_id integer, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off
AS $$
BEGIN
  RETURN QUERY
  SELECT e.queue_id, e.shard, e.lane, "lockstep".micros(h.perform_in)
  FROM unnest(_queue_ids, _shards, _lanes, _after, _after_ids) AS e(queue_id, shard, lane, after, after_id)
  JOIN "lockstep".queues q ON q.queue_id = e.queue_id AND q.paused_at IS NULL
  CROSS JOIN LATERAL (
    SELECT j.perform_in FROM "lockstep".jobs j
    WHERE j.queue_id = e.queue_id AND j.shard = e.shard AND j.lane = e.lane
      AND (j.perform_in, j.id) > ("lockstep".from_micros(e.after), e.after_id) AND j.claimed_by IS NULL
    ORDER BY j.perform_in, j.id LIMIT 1
  ) h;
END
$$;


-- Keeps fences growing if the server's past was cut off: after a failover to a replica that lacked some of it, a
-- recovery to a point in time, or a restore into another cluster. The sequence then hands out again what handlers have
-- shown to outside systems, and those would refuse valid handlers, or take late ones for valid.
--
-- Each such event gives the server another timeline, or it is another system. If that differs from what was noted,
-- fences continue at a later multiple of 2^32: one further for each timeline since, so that it is a new one even if the
-- server in between, and what it noted, are lost too. 2^53, above which JavaScript counts wrong, leaves room for two
-- million. The numbers of processes continue a thousand higher. Otherwise a process that registers could get the number
-- of one that lives and whose registration was lost.
--
-- A session stays on its server's timeline as long as it lasts: a server gets another one before it takes writes. So
-- the timeline is checked once in each session, before its first claim, and before a process registers. A session that
-- comes second, while another one raises the numbers, waits for that one and finds it done: no session draws a number
-- of the new timeline before.
--
-- If the server does not tell its timeline (some managed ones don't, and a replica doesn't), nothing is done. It runs
-- with its owner's rights, since a worker must not be able to set a sequence.
CREATE OR REPLACE FUNCTION "lockstep".note_timeline() RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  _system bigint;
  _timeline integer;
  _noted record;
BEGIN
  BEGIN
    SELECT c.system_identifier, ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer
    INTO _system, _timeline FROM pg_control_system() c;
  EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported OR object_not_in_prerequisite_state THEN
    RETURN;
  END;
  SELECT t.system, t.timeline INTO _noted FROM "lockstep".timeline t;
  IF NOT FOUND THEN
    INSERT INTO "lockstep".timeline (system, timeline) VALUES (_system, _timeline) ON CONFLICT DO NOTHING;
    RETURN;
  END IF;
  IF (_noted.system, _noted.timeline) = (_system, _timeline) THEN
    RETURN;
  END IF;
  SELECT t.system, t.timeline INTO _noted FROM "lockstep".timeline t FOR UPDATE;
  IF (_noted.system, _noted.timeline) = (_system, _timeline) THEN
    RETURN;
  END IF;
  PERFORM setval('"lockstep".fences', (
    (s.last_value >> 32) + CASE WHEN _noted.system = _system THEN greatest(_timeline - _noted.timeline, 1) ELSE 1 END
  ) << 32)
  FROM "lockstep".fences s;
  PERFORM setval('"lockstep".processes_process_id_seq', s.last_value + 1000) FROM "lockstep".processes_process_id_seq s;
  UPDATE "lockstep".timeline SET system = _system, timeline = _timeline;
END
$$;


-- The payloads of a job from a fence on, which are those of its next round, in the form in which payloads_of returns
-- those below it. All of them lie under that one fence, so no two are equal.
CREATE OR REPLACE FUNCTION "lockstep".payloads_from(_queue_id integer, _id text, _fence bigint) RETURNS jsonb
LANGUAGE sql STABLE
SET extra_float_digits = 1
AS $$
  SELECT jsonb_agg("lockstep".shown_payload(p.score, p.payload, p.headers) ORDER BY p.score, p.seq)
  FROM "lockstep".payloads p
  WHERE p.queue_id = _queue_id AND p.job_id = _id COLLATE "C" AND p.fence >= _fence
$$;


-- The payloads of a job below a fence (NULL: all) as one JSON array: [{"score": ..., "payload": ..., "headers": ...},
-- ...] by score. A payload without headers has no key for them. Of equal payloads, the headers of the one that was
-- pushed first stay. The scores have all their digits, whatever the session's extra_float_digits is.
CREATE OR REPLACE FUNCTION "lockstep".payloads_of(_queue_id integer, _id text, _fence bigint) RETURNS jsonb
LANGUAGE sql STABLE
SET extra_float_digits = 1
AS $$
  SELECT jsonb_agg("lockstep".shown_payload(f.score, f.payload, f.headers) ORDER BY f.score, f.seq)
  FROM (
    SELECT DISTINCT ON (p.digest) p.payload, p.score, p.seq, first_value(p.headers) OVER (PARTITION BY p.digest ORDER BY p.seq) AS headers
    FROM "lockstep".payloads p
    WHERE p.queue_id = _queue_id AND p.job_id = _id COLLATE "C" AND (_fence IS NULL OR p.fence < _fence)
    ORDER BY p.digest, p.score, p.seq
  ) f
$$;


-- The payloads below a fence that one round takes of a job: by score and push, with equal ones of several rounds folded
-- into the lowest. At most `_max_payloads` (NULL: one for each 64 bytes of `_max_bytes`, and a thousand in any case)
-- and `_max_bytes` of JSON text, headers included, but at least one. If any are left behind, a row without a payload
-- follows: `cut`.
--
-- Of equal ones, the headers of the one that was pushed first stay. That is the one with the lowest fence: while a job
-- has one fence, everything that is pushed goes under it, and no two equal ones.
--
-- All are sorted by their keys alone. After that, payloads are fetched one by one until there are enough: those behind
-- are neither carried through the sorts nor put together from where they are stored. (For how it looks up rows, see
-- claim. The settings of its callers, claim and load_payloads, apply here too. It has none of its own, because it is
-- called for each round.)
CREATE OR REPLACE FUNCTION "lockstep".payloads_of_round(
  _queue_id integer,
  _id text,
  _fence bigint,
  _max_payloads integer,
  _max_bytes integer
) RETURNS TABLE (payload jsonb, headers jsonb, score double precision, seq bigint, cut boolean)
LANGUAGE plpgsql
AS $$
DECLARE
  _most constant integer := coalesce(_max_payloads, greatest(_max_bytes / 64, 1000));
  _count integer := 0;
  _bytes bigint := 0;
BEGIN
  cut := false;
  FOR payload, headers, score, seq IN
    SELECT t.payload, CASE WHEN f.fence = f.earliest THEN t.headers ELSE e.headers END, f.score, f.seq
    FROM (
      SELECT d.* FROM (
        SELECT DISTINCT ON (p.digest) p.ctid AS tid, p.digest, p.fence, min(p.fence) OVER equal AS earliest, p.score, p.seq
        FROM "lockstep".payloads p
        WHERE p.queue_id = _queue_id AND p.job_id = _id AND p.fence < _fence
        WINDOW equal AS (PARTITION BY p.digest ORDER BY p.score, p.seq ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
        ORDER BY p.digest, p.score, p.seq
      ) d
      ORDER BY d.score, d.seq OFFSET 0
    ) f
    CROSS JOIN LATERAL (
      SELECT p.payload, p.headers FROM "lockstep".payloads p WHERE p.queue_id + 0 = _queue_id AND p.ctid = f.tid OFFSET 0
    ) t
    LEFT JOIN LATERAL (
      SELECT p.headers FROM "lockstep".payloads p
      WHERE p.queue_id = _queue_id AND p.job_id = _id AND p.fence = f.earliest AND p.digest = f.digest AND f.fence <> f.earliest
      OFFSET 0
    ) e ON true
  LOOP
    _count := _count + 1;
    _bytes := _bytes + octet_length(payload::text) + coalesce(octet_length(headers::text), 0);
    IF _count > 1 AND (_count > _most OR _bytes > _max_bytes) THEN
      payload := NULL;
      headers := NULL;
      score := NULL;
      seq := NULL;
      cut := true;
      RETURN NEXT;
      RETURN;
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;


-- Releases rounds with their numbers unchanged (R15): they wait as before, with what was pushed meanwhile.
CREATE OR REPLACE FUNCTION "lockstep".release(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _wait boolean
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
  _places integer[];
  _tids tid[];
BEGIN
  SELECT array_agg(h.place), array_agg(h.tid) INTO _places, _tids
  FROM "lockstep".lock_rounds(_queue_ids, _process_id, _ids, _fences, _wait) h;
  RETURN QUERY
  UPDATE "lockstep".jobs j SET next_perform_in = NULL, claimed_by = NULL, claimed_at = NULL
  FROM unnest(_places, _tids) AS r(place, tid)
  WHERE j.queue_id + 0 = _queue_ids[r.place] AND j.ctid = r.tid
  RETURNING j.queue_id, j.id, 'again', j.shard, j.lane, "lockstep".micros(j.perform_in);
  IF cardinality(_places) IS DISTINCT FROM cardinality(_ids) THEN
    RETURN QUERY SELECT * FROM "lockstep".unsettled(_queue_ids, _process_id, _ids, _fences, _places);
  END IF;
END
$$;


-- Removes processes that have been silent for as long as their leases: their claims are free from then on. The caller
-- has seen each with this renewal, has counted its whole lease since then on a clock that no one sets, and finds the
-- same renewal here. Returns those it has removed.
--
-- Their own time is over by then. A process counts its lease from before it asks for a renewal. The renewal was seen
-- after it was stored, and the caller counts from when it saw it. So the caller's end is the later one, whatever the
-- server's clock says, and however long the caller stood still between its looks: what counts is the renewal found
-- here. No renewal is ever drawn twice, not even if a crash or a failover has lost the last ones, so a later one can't
-- look the same.
--
-- A renewal changes the same row. If it comes first, it has changed what is compared, or holds the row (SKIP LOCKED):
-- its process is alive. If it comes second, it finds no row, and its process knows that it has lost its lease.
CREATE OR REPLACE FUNCTION "lockstep".remove_silent(_process_ids integer[], _renewals uuid[]) RETURNS SETOF integer
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM "lockstep".require_read_committed();
  RETURN QUERY
  WITH silent AS MATERIALIZED (
    SELECT p.process_id FROM "lockstep".processes p
    JOIN unnest(_process_ids, _renewals) AS seen(process_id, renewal)
      ON p.process_id = seen.process_id AND p.renewal = seen.renewal
    FOR UPDATE OF p SKIP LOCKED
  )
  DELETE FROM "lockstep".processes p USING silent s WHERE p.process_id = s.process_id RETURNING p.process_id;
END
$$;


-- The protocol reads in a later statement what others committed after an earlier one. Under REPEATABLE READ all
-- statements see one snapshot, and a completion could delete a payload that no one has read: so this refuses.
CREATE OR REPLACE FUNCTION "lockstep".require_read_committed() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'this needs a READ COMMITTED transaction, not %', upper(current_setting('transaction_isolation'))
      USING ERRCODE = 'LK003', HINT = 'Begin it with: BEGIN ISOLATION LEVEL READ COMMITTED.';
  END IF;
END
$$;


-- The next job to come of every lane of the given shards, from the beginning: the full look. It finds what cursors have
-- passed: late commits, skipped rows, and jobs whose process has died. It finds lanes by jumping from one to the next
-- in the index.
-- Sorts are off, so that only jobs_due can give ORDER BY lane, and ORDER BY perform_in, id: the planner can't take the
-- primary key, which would have the whole queue read (see claim).
CREATE OR REPLACE FUNCTION "lockstep".survey(
  _process_id integer,
  _queue_ids integer[],
  _shards integer[]
) RETURNS TABLE (queue_id integer, shard integer, lane smallint, perform_in bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off
AS $$
BEGIN
  RETURN QUERY
  SELECT e.queue_id, e.shard, l.lane, "lockstep".micros(h.perform_in)
  FROM unnest(_queue_ids, _shards) AS e(queue_id, shard)
  JOIN "lockstep".queues q ON q.queue_id = e.queue_id AND q.paused_at IS NULL
  CROSS JOIN LATERAL (
    WITH RECURSIVE lanes (lane) AS (
      (SELECT j.lane FROM "lockstep".jobs j WHERE j.queue_id = e.queue_id AND j.shard = e.shard ORDER BY j.lane LIMIT 1)
      UNION ALL
      SELECT (SELECT j.lane FROM "lockstep".jobs j
              WHERE j.queue_id = e.queue_id AND j.shard = e.shard AND j.lane > p.lane ORDER BY j.lane LIMIT 1)
      FROM lanes p WHERE p.lane IS NOT NULL
    )
    SELECT n.lane FROM lanes n WHERE n.lane IS NOT NULL
  ) l
  CROSS JOIN LATERAL (
    SELECT j.perform_in FROM "lockstep".jobs j
    WHERE j.queue_id = e.queue_id AND j.shard = e.shard AND j.lane = l.lane
      AND CASE
        WHEN j.claimed_by IS NULL THEN true
        WHEN j.claimed_by = _process_id THEN false
        ELSE NOT EXISTS (
          SELECT FROM "lockstep".processes p WHERE p.process_id = j.claimed_by
        )
      END
    ORDER BY j.perform_in, j.id LIMIT 1
  ) h;
END
$$;


-- Why rounds could not be settled: `held` ones are still the process's own and wait for a producer's open transaction;
-- `lost` ones belong to another process by now or are gone.
-- Both kinds of sorts are off, so that only the primary key can give the ORDER BY t.id of the lookup: the planner can't
-- take jobs_due (see claim). Settings for joins are not needed: a LATERAL subquery with a LIMIT leaves only a nested
-- loop.
CREATE OR REPLACE FUNCTION "lockstep".unsettled(
  _queue_ids integer[],
  _process_id integer,
  _ids text[],
  _fences bigint[],
  _settled integer[]
) RETURNS TABLE (queue_id integer, id text, outcome text, shard integer, lane smallint, perform_in bigint)
LANGUAGE sql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off
AS $$
  SELECT r.queue_id, r.id, CASE WHEN j.id IS NULL THEN 'lost' ELSE 'held' END, j.shard, j.lane, NULL::bigint
  FROM unnest(_queue_ids, _ids, _fences) WITH ORDINALITY AS r(queue_id, id, fence, place)
  LEFT JOIN LATERAL (
    SELECT t.id, t.shard, t.lane FROM "lockstep".jobs t
    WHERE t.queue_id = r.queue_id AND t.id >= r.id COLLATE "C" AND t.id <= r.id COLLATE "C"
      AND t.fence = r.fence AND t.claimed_by = _process_id
    ORDER BY t.id LIMIT 1
  ) j ON true
  WHERE r.place <> ALL (coalesce(_settled, '{}'))
$$;


-- Waits for the first job of a lane, from a cursor on, that is due and that no live process has claimed, while other
-- transactions hold its row. A statement that skips never joins the queue for a row, so a job that is pushed without
-- pause would be skipped for ever. When this returns, the row is locked, and `claim`, called next in the same
-- transaction with the same cursor, finds it free: a transaction does not skip what it has locked itself. Everything
-- that makes a claim right stays claim's part: it checks its conditions on the newest version of the row, draws the
-- fence after the lock, and reads payloads after that.
--
-- The caller has set a lock_timeout below the server's deadlock_timeout, and has locked nothing before. One statement
-- chooses the job, and the next one locks it: if one did both, a row that no longer fits after the wait would stay
-- locked while the next one is waited for. A transaction that waits for one row and holds none can't be part of a
-- deadlock.
--
-- Sorts are off, so that only jobs_due can give the ORDER BY perform_in, id that chooses the job, and only the primary
-- key the ORDER BY id of its lookup (see claim).
CREATE OR REPLACE FUNCTION "lockstep".wait_for(
  _process_id integer,
  _queue_id integer,
  _shard integer,
  _lane smallint,
  _after bigint,
  _after_id text
) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off
AS $$
DECLARE
  _now constant timestamptz := clock_timestamp();
  _id text;
BEGIN
  PERFORM "lockstep".require_read_committed();
  SELECT j.id INTO _id FROM "lockstep".jobs j
  WHERE j.queue_id = _queue_id AND j.shard = _shard AND j.lane = _lane
    AND j.perform_in <= _now AND (j.perform_in, j.id) > ("lockstep".from_micros(_after), _after_id)
    AND CASE
      WHEN j.claimed_by IS NULL THEN true
      WHEN j.claimed_by = _process_id THEN false
      ELSE NOT EXISTS (
        SELECT FROM "lockstep".processes p WHERE p.process_id = j.claimed_by
      )
    END
  ORDER BY j.perform_in, j.id LIMIT 1;
  PERFORM FROM "lockstep".jobs j
  WHERE j.queue_id = _queue_id AND j.id >= _id COLLATE "C" AND j.id <= _id COLLATE "C"
  ORDER BY j.id FOR UPDATE;
END
$$;


-- Deletes waiting jobs with their payloads, and of jobs in progress what waits behind the round (R11). Returns how many
-- jobs that were. Nothing then follows such a round, as its completion reads from the row. (For `_next` see
-- lock_waiting.)
--
-- The payloads are found by their ctids: no other session moves those of a job whose row is locked. (For OFFSET 0 see
-- claim.)
CREATE OR REPLACE FUNCTION "lockstep".delete_jobs(_queue_id integer, _ids text[], _next boolean[] DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
  _held text[];
  _fences bigint[];
  _jobs text[];
  _rounds text[];
BEGIN
  SELECT array_agg(h.id), array_agg(h.fence),
    array_agg(h.id) FILTER (WHERE h.fence IS NULL), array_agg(h.id) FILTER (WHERE h.fence IS NOT NULL)
  INTO _held, _fences, _jobs, _rounds
  FROM "lockstep".lock_waiting(_queue_id, _ids, _next) h;

  DELETE FROM "lockstep".payloads p
  USING unnest(_held, _fences) AS h(id, fence) CROSS JOIN LATERAL (
    SELECT t.ctid AS tid FROM "lockstep".payloads t
    WHERE t.queue_id = _queue_id AND t.job_id = h.id AND t.fence >= coalesce(h.fence, 0)
    OFFSET 0
  ) e
  WHERE p.queue_id + 0 = _queue_id AND p.ctid = e.tid;

  DELETE FROM "lockstep".jobs j WHERE j.queue_id = _queue_id AND j.id = ANY (_jobs);
  UPDATE "lockstep".jobs j SET next_perform_in = NULL WHERE j.queue_id = _queue_id AND j.id = ANY (_rounds);
  RETURN coalesce(cardinality(_held), 0);
END
$$;


-- Gives a queue this many shards if it has fewer, and returns whether it had. Nothing moves. Each waiting row stays
-- where it is and is served there. The same holds for what a producer that has read the lower number commits later: the
-- shard it chose is one of those that stay.
--
-- This is one statement, whose condition is checked again on the newest version of the row if another session has
-- changed it meanwhile. So if workers with several definitions start side by side, the largest number is left, in
-- whatever order they come, and a reshard comes before or after as a whole. A process that dies in it has done nothing.
--
-- It goes by the queue's id: a row that was deleted and made again since it was read is left alone.
-- It runs with its owner's rights, for the roles that were granted it, as create_queue does: they may grow a queue, but
-- not shrink it.
CREATE OR REPLACE FUNCTION "lockstep".grow_queue(_queue_id integer, _shards integer) RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM "lockstep".require_read_committed();
  UPDATE "lockstep".queues q SET shards = _shards WHERE q.queue_id = _queue_id AND q.shards < _shards;
  RETURN FOUND;
END
$$;
REVOKE ALL ON FUNCTION "lockstep".grow_queue FROM PUBLIC;


-- Moves the whole payload sets of waiting jobs to the morgue, and of jobs in progress what waits behind the round
-- (R11). Returns how many jobs that were. Equal payloads of several rounds fold into the smallest score and the
-- earliest headers. They die one after the other, in the order a handler would have got them: that is the order in
-- which a requeue brings back those of one score. The error is the job's last one; a next round has had none.
-- (Otherwise as delete_jobs.)
CREATE OR REPLACE FUNCTION "lockstep".kill(_queue_id integer, _ids text[], _next boolean[] DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
  _held text[];
  _fences bigint[];
  _jobs text[];
  _rounds text[];
  _died_at timestamptz;
BEGIN
  SELECT array_agg(h.id), array_agg(h.fence),
    array_agg(h.id) FILTER (WHERE h.fence IS NULL), array_agg(h.id) FILTER (WHERE h.fence IS NOT NULL), clock_timestamp()
  INTO _held, _fences, _jobs, _rounds, _died_at
  FROM "lockstep".lock_waiting(_queue_id, _ids, _next) h;

  WITH gone AS (
    DELETE FROM "lockstep".payloads p
    USING unnest(_held, _fences) AS h(id, fence) CROSS JOIN LATERAL (
      SELECT t.ctid AS tid FROM "lockstep".payloads t
      WHERE t.queue_id = _queue_id AND t.job_id = h.id AND t.fence >= coalesce(h.fence, 0)
      OFFSET 0
    ) e
    WHERE p.queue_id + 0 = _queue_id AND p.ctid = e.tid
    RETURNING p.queue_id, p.job_id, p.digest, p.score, p.seq, p.payload, p.headers, h.fence IS NULL AS has_run
  )
  INSERT INTO "lockstep".morgue AS m (queue_id, shard, job_id, digest, score, payload, headers, error, died_at)
  SELECT DISTINCT ON (g.job_id, g.digest)
    _queue_id, j.shard, g.job_id, g.digest, g.score, g.payload,
    first_value(g.headers) OVER (PARTITION BY g.job_id, g.digest ORDER BY g.seq), coalesce(CASE WHEN g.has_run THEN j.error END, 'killed'),
    _died_at + row_number() OVER (ORDER BY g.score, g.seq) * interval '1 microsecond'
  FROM gone g JOIN "lockstep".jobs j ON j.queue_id = g.queue_id AND j.id = g.job_id
  ORDER BY g.job_id, g.digest, g.score, g.seq
  ON CONFLICT (queue_id, job_id, digest) DO UPDATE SET
    score = least(m.score, excluded.score), error = excluded.error, died_at = excluded.died_at;

  DELETE FROM "lockstep".jobs j WHERE j.queue_id = _queue_id AND j.id = ANY (_jobs);
  UPDATE "lockstep".jobs j SET next_perform_in = NULL WHERE j.queue_id = _queue_id AND j.id = ANY (_rounds);
  RETURN coalesce(cardinality(_held), 0);
END
$$;


-- Locks what waits of the given ids, in id order like a push: jobs that no process has in progress, and the next rounds
-- of those in progress. What a person does touches only these. It waits for a producer's open transaction: nothing is
-- silently passed over.
--
-- `fence` is the one from which on payloads may be taken; NULL: all of the job. What was pushed since a round began
-- lies at its fence, and the round itself below it: in that job's row nothing but next_perform_in may change. A push
-- that comes later waits for the lock, and then finds what was done.
--
-- The statement looks at processes to leave alone what is in progress. Whether one is gone is checked again when the
-- row is locked (is_gone): the row may have been claimed meanwhile, by a process that the statement does not see.
--
-- `_next` says of each id which of the two its caller has seen, under locks it still has; NULL takes what there is. A
-- next round stays what it is if its process dies between the two: the payloads from its fence on.
CREATE OR REPLACE FUNCTION "lockstep".lock_waiting(_queue_id integer, _ids text[], _next boolean[])
RETURNS TABLE (id text, fence bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
  PERFORM "lockstep".require_read_committed();
  RETURN QUERY
  SELECT h.id, CASE WHEN NOT w.whole THEN h.fence END
  FROM (SELECT DISTINCT u.id COLLATE "C" AS id, u.next FROM unnest(_ids, _next) AS u(id, next) ORDER BY 1) r
  CROSS JOIN LATERAL (
    SELECT j.id, j.fence, j.claimed_by, j.next_perform_in FROM "lockstep".jobs j
    WHERE j.queue_id = _queue_id AND j.id >= r.id AND j.id <= r.id
      AND (j.next_perform_in IS NOT NULL OR NOT EXISTS (
        SELECT FROM "lockstep".processes p WHERE p.process_id = j.claimed_by
      ))
    ORDER BY j.id FOR UPDATE
  ) h
  CROSS JOIN LATERAL (
    SELECT CASE WHEN h.claimed_by IS NULL THEN true WHEN r.next THEN false ELSE "lockstep".is_gone(h.claimed_by) END AS whole
    OFFSET 0
  ) w
  WHERE CASE WHEN w.whole THEN r.next IS NOT TRUE ELSE r.next IS NOT FALSE AND h.next_perform_in IS NOT NULL END;
END
$$;


-- Makes waiting jobs due now, and of jobs in progress what waits behind the round (R11). Returns how many jobs that
-- were. Such a next round starts when the round in progress ends, and the end itself reports it to the worker: there is
-- no one to wake.
-- A job that a dead process left becomes an ordinary waiting one, with its crash counted: a look from a cursor sees
-- only rows that no process has claimed. (For `_next` see lock_waiting.)
-- It has fewer settings than other functions: its own statements look up rows by id = ANY (...) alone and join no
-- tables.
CREATE OR REPLACE FUNCTION "lockstep".perform_now(_queue_id integer, _ids text[], _next boolean[] DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
AS $$
DECLARE
  _jobs text[];
  _rounds text[];
  _heads text[];
BEGIN
  SELECT array_agg(h.id) FILTER (WHERE h.fence IS NULL), array_agg(h.id) FILTER (WHERE h.fence IS NOT NULL)
  INTO _jobs, _rounds
  FROM "lockstep".lock_waiting(_queue_id, _ids, _next) h;

  WITH due AS (
    UPDATE "lockstep".jobs j SET
      perform_in = clock_timestamp(), next_perform_in = NULL,
      crashes = j.crashes + (j.claimed_by IS NOT NULL)::integer, claimed_by = NULL, claimed_at = NULL
    WHERE j.queue_id = _queue_id AND j.id = ANY (_jobs)
    RETURNING j.shard, j.lane, j.perform_in
  ), heads AS (
    SELECT d.shard, d.lane, min(d.perform_in) AS perform_in FROM due d GROUP BY d.shard, d.lane
  )
  SELECT array_agg("lockstep".wake_token(h.shard, h.lane, h.perform_in)) INTO _heads FROM heads h;
  UPDATE "lockstep".jobs j SET next_perform_in = clock_timestamp()
  WHERE j.queue_id = _queue_id AND j.id = ANY (_rounds);
  IF _heads IS NOT NULL THEN
    PERFORM "lockstep".wake(_queue_id, _heads);
  END IF;
  RETURN coalesce(cardinality(_jobs), 0) + coalesce(cardinality(_rounds), 0);
END
$$;


-- Moves up to `_limit` jobs out of shards that a queue no longer has, and returns how many. The row of an id stays the
-- same row, in progress or not, so nothing can run twice. Locked rows are left for the next call. So is what a producer
-- that still counted with the old shards commits later.
-- The order is that of the index of due work, and sorts are off, so strays are found in that index, however few they
-- are. The primary key looks cheap while there are many, but would have the whole queue read for the last one.
CREATE OR REPLACE FUNCTION "lockstep".rehome(_queue_id integer, _limit integer) RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off
AS $$
DECLARE
  _shard_count integer;
  _moved integer;
  _heads text[];
BEGIN
  PERFORM "lockstep".require_read_committed();
  SELECT q.shards INTO _shard_count FROM "lockstep".queues q WHERE q.queue_id = _queue_id;
  WITH stray AS MATERIALIZED (
    SELECT j.queue_id, j.id FROM "lockstep".jobs j
    WHERE j.queue_id = _queue_id AND j.shard >= _shard_count
    ORDER BY j.shard, j.lane, j.perform_in, j.id
    LIMIT _limit FOR UPDATE SKIP LOCKED
  ), moved AS (
    UPDATE "lockstep".jobs j SET shard = "lockstep".shard_of(j.id, _shard_count)
    FROM stray s WHERE j.queue_id = s.queue_id AND j.id = s.id
    RETURNING j.shard, j.lane, j.perform_in
  ), heads AS (
    SELECT m.shard, m.lane, min(m.perform_in) AS perform_in FROM moved m GROUP BY m.shard, m.lane
  )
  SELECT (SELECT count(*) FROM moved m),
    (SELECT array_agg("lockstep".wake_token(h.shard, h.lane, h.perform_in)) FROM heads h)
  INTO _moved, _heads;
  IF _heads IS NOT NULL THEN
    PERFORM "lockstep".wake(_queue_id, _heads);
  END IF;
  RETURN _moved;
END
$$;


-- Moves dead payloads back to their jobs (R5) and returns how many. A waiting job becomes due now with a clean count.
-- One in progress gets them in its next round, at once. If another session has requeued or deleted a job's payloads
-- meanwhile, the job is left as it is. If a job has no error, it gets the latest error that its dead payloads died of:
-- that stays until the next success.
--
-- 1. Jobs are locked before rows of the morgue, in id order, as a death does it: the other way round, the two could
--    deadlock. ON CONFLICT locks an existing row even though its WHERE never holds.
-- 2. The payloads move under the fence of their job: below the next claim's fence, or, for a job in progress, where the
--    completion spares them. They merge as a push does: an equal payload that waits keeps its headers.
-- 3. The jobs that got something change. One that a dead process left waits, with its crash counted.
-- 4. Jobs that step 1 made for nothing are deleted again.
-- (For OFFSET 0 see claim.)
CREATE OR REPLACE FUNCTION "lockstep".requeue(_queue_id integer, _job_ids text[], _digests bytea[]) RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
  _moved integer;
  _risen text[];
  _errors text[];
  _heads text[];
BEGIN
  PERFORM "lockstep".require_read_committed();
  INSERT INTO "lockstep".jobs AS j (queue_id, shard, perform_in, id)
  SELECT _queue_id, "lockstep".shard_of(i.id, q.shards), clock_timestamp(), i.id
  FROM (SELECT DISTINCT d.id COLLATE "C" AS id FROM unnest(_job_ids) AS d(id)) i, "lockstep".queues q
  WHERE q.queue_id = _queue_id
  ORDER BY i.id
  ON CONFLICT (queue_id, id) DO UPDATE SET fence = j.fence WHERE false;

  WITH risen AS (
    DELETE FROM "lockstep".morgue m
    USING (SELECT _queue_id AS queue_id, t.* FROM unnest(_job_ids, _digests) AS t(id, digest) OFFSET 0) d
    WHERE m.queue_id = d.queue_id AND m.job_id = d.id AND m.digest = d.digest
    RETURNING m.queue_id, m.job_id, m.digest, m.score, m.payload, m.headers, m.error, m.died_at
  ), back AS (
    INSERT INTO "lockstep".payloads AS p (queue_id, fence, score, job_id, digest, payload, headers)
    SELECT _queue_id, j.fence, r.score, r.job_id, r.digest, r.payload, r.headers
    FROM risen r JOIN "lockstep".jobs j ON j.queue_id = r.queue_id AND j.id = r.job_id
    ORDER BY r.died_at
    ON CONFLICT (queue_id, job_id, fence, digest) DO UPDATE SET score = excluded.score, seq = excluded.seq
      WHERE excluded.score < p.score
  )
  SELECT coalesce(sum(r.payloads), 0), array_agg(r.job_id), array_agg(r.error) INTO _moved, _risen, _errors
  FROM (
    SELECT r.job_id, count(*) AS payloads, (array_agg(r.error ORDER BY r.died_at DESC))[1] AS error
    FROM risen r GROUP BY r.job_id
  ) r;

  UPDATE "lockstep".jobs j SET
    perform_in = clock_timestamp(), retry_count = -1, error = coalesce(j.error, r.error), next_perform_in = NULL,
    crashes = j.crashes + (j.claimed_by IS NOT NULL)::integer, claimed_by = NULL, claimed_at = NULL
  FROM (SELECT _queue_id AS queue_id, t.* FROM unnest(_risen, _errors) AS t(id, error) OFFSET 0) r
  WHERE j.queue_id = r.queue_id AND j.id = r.id
    AND CASE WHEN j.claimed_by IS NULL THEN true ELSE "lockstep".is_gone(j.claimed_by) END;

  UPDATE "lockstep".jobs j SET next_perform_in = least(j.next_perform_in, clock_timestamp())
  WHERE j.queue_id = _queue_id AND j.id = ANY (_risen) AND j.claimed_by IS NOT NULL;

  DELETE FROM "lockstep".jobs j
  WHERE j.queue_id = _queue_id AND j.id = ANY (_job_ids) AND j.claimed_by IS NULL
    AND NOT EXISTS (SELECT FROM "lockstep".payloads p WHERE p.queue_id = j.queue_id AND p.job_id = j.id);

  SELECT array_agg("lockstep".wake_token(h.shard, h.lane, h.perform_in)) INTO _heads
  FROM (
    SELECT j.shard, j.lane, min(j.perform_in) AS perform_in FROM "lockstep".jobs j
    WHERE j.queue_id = _queue_id AND j.id = ANY (_risen) AND j.claimed_by IS NULL
    GROUP BY j.shard, j.lane
  ) h;
  IF _heads IS NOT NULL THEN
    PERFORM "lockstep".wake(_queue_id, _heads);
  END IF;
  RETURN _moved;
END
$$;


-- Payloads that failed too often, or were killed.
CREATE OR REPLACE VIEW "lockstep".dead AS
SELECT q.name AS queue, m.job_id AS id, m.shard, m.payload, m.score, m.error, m.died_at, encode(m.digest, 'hex') AS digest, m.headers
FROM "lockstep".morgue m
JOIN "lockstep".queues q USING (queue_id);


-- Worker processes, with the number of jobs each has in progress. `overdue`: by the server's clock the process should
-- have renewed its lease by now. Then it is dead or out of reach, or the clock was set: this decides nothing. A running
-- worker removes a process that was silent for a lease, and so frees what it had in progress.
CREATE OR REPLACE VIEW "lockstep".process_list AS
SELECT p.process_id, p.host, p.pid, p.version, p.queues, p.slots, p.started_at, p.expires_at, p.quiet,
  (SELECT count(*) FROM "lockstep".jobs j WHERE j.claimed_by = p.process_id) AS working,
  p.expires_at <= clock_timestamp() AS overdue
FROM "lockstep".processes p;


-- A row for each queue and minute of the last day in which rounds ended. They are counted every few seconds, so those
-- at the end of a minute may be under the next.
CREATE OR REPLACE VIEW "lockstep".queue_minutes AS
SELECT q.name AS queue, c.minute, c.processed, c.failed
FROM "lockstep".minute_counters c JOIN "lockstep".queues q USING (queue_id);


-- A row for each queue. What waits is a job that is not in progress, or the next round of one that is: `fresh` if it
-- never failed, otherwise `retrying`. `due` is the part of it that could start now, if its id is not in progress. `lag`
-- is how long the oldest of that has been due. `dead` counts payloads, `working` jobs; `processed` and `failed` count
-- rounds since the queue was made. Every table is read once, whatever the number of queues.
CREATE OR REPLACE VIEW "lockstep".queue_stats AS
WITH counted AS (
  SELECT e.queue_id,
    count(e.perform_in) AS waiting,
    count(*) FILTER (WHERE e.perform_in <= e.now) AS due,
    count(e.perform_in) FILTER (WHERE e.working OR e.retry_count < 0) AS fresh,
    count(*) FILTER (WHERE NOT e.working AND e.retry_count >= 0) AS retrying,
    count(*) FILTER (WHERE e.working) AS working,
    min(e.perform_in) FILTER (WHERE e.perform_in <= e.now) AS oldest
  FROM (
    SELECT j.queue_id, now.at AS now, p.process_id IS NOT NULL AS working, j.retry_count,
      CASE WHEN p.process_id IS NULL THEN j.perform_in ELSE j.next_perform_in END AS perform_in
    FROM (SELECT clock_timestamp() AS at OFFSET 0) now
    CROSS JOIN "lockstep".jobs j
    LEFT JOIN "lockstep".processes p ON p.process_id = j.claimed_by
  ) e
  GROUP BY e.queue_id
), buried AS (
  SELECT m.queue_id, count(*) AS dead FROM "lockstep".morgue m GROUP BY m.queue_id
), ended AS (
  SELECT c.queue_id, sum(c.processed)::bigint AS processed, sum(c.failed)::bigint AS failed
  FROM "lockstep".counters c GROUP BY c.queue_id
)
SELECT q.name AS queue, q.shards, q.paused_at,
  coalesce(j.waiting, 0) AS waiting, coalesce(j.due, 0) AS due, coalesce(j.fresh, 0) AS fresh,
  coalesce(j.retrying, 0) AS retrying, coalesce(j.working, 0) AS working, coalesce(m.dead, 0) AS dead,
  coalesce(greatest(clock_timestamp() - j.oldest, interval '0'), interval '0') AS lag,
  coalesce(c.processed, 0) AS processed, coalesce(c.failed, 0) AS failed
FROM "lockstep".queues q
LEFT JOIN counted j USING (queue_id)
LEFT JOIN buried m USING (queue_id)
LEFT JOIN ended c USING (queue_id);


-- What waits, with its payloads in the order in which a handler will get them: jobs that are not in progress, and what
-- was pushed into jobs in progress since their round began. That is the job's next round, with a time of its own and a
-- clean count.
CREATE OR REPLACE VIEW "lockstep".waiting AS
SELECT q.name AS queue, j.id, j.shard, j.lane,
  CASE WHEN p.process_id IS NULL THEN j.perform_in ELSE j.next_perform_in END AS perform_in,
  CASE WHEN p.process_id IS NULL THEN j.retry_count ELSE -1 END AS retry_count,
  CASE WHEN p.process_id IS NULL THEN j.crashes ELSE 0::smallint END AS crashes,
  CASE WHEN p.process_id IS NULL THEN j.error END AS error,
  CASE
    WHEN p.process_id IS NULL THEN "lockstep".payloads_of(j.queue_id, j.id, NULL)
    ELSE "lockstep".payloads_from(j.queue_id, j.id, j.fence)
  END AS payloads
FROM "lockstep".jobs j
JOIN "lockstep".queues q USING (queue_id)
LEFT JOIN "lockstep".processes p ON p.process_id = j.claimed_by
WHERE p.process_id IS NULL OR j.next_perform_in IS NOT NULL;


-- Jobs in progress: by which process, since when, and with the payloads of this round. Those of the next one wait. A
-- process that died counts until it is removed (see process_list).
CREATE OR REPLACE VIEW "lockstep".working AS
SELECT q.name AS queue, j.id, j.shard, j.lane, j.claimed_by AS process_id, p.host, p.pid, j.claimed_at, j.fence,
  j.retry_count, j.crashes, j.next_perform_in, "lockstep".payloads_of(j.queue_id, j.id, j.fence) AS payloads
FROM "lockstep".jobs j
JOIN "lockstep".queues q USING (queue_id)
JOIN "lockstep".processes p ON p.process_id = j.claimed_by;


insert into "lockstep".release as r (serial, hash, oldest_served, version, made, migrated_at)
values (22, 'cb2ca9e8d0ba6ee53f3b386466e591a62651778f097b6ab061080f5b13b6fddf', 21, '0.1.0', (select encode(sha256(convert_to(concat(
  (select string_agg(pg_get_functiondef(p.oid), ' ' order by p.proname, p.proargtypes::text)
   from pg_proc p where p.pronamespace = '"lockstep"'::regnamespace and p.prokind in ('f', 'p')),
  (select string_agg(c.relname::text, ' ' order by c.relname)
   from pg_class c where c.relnamespace = '"lockstep"'::regnamespace and c.relkind = 'v')
), 'UTF8')), 'hex')), clock_timestamp())
on conflict (only_row) do update set (serial, hash, oldest_served, version, made, migrated_at)
  = (excluded.serial, excluded.hash, excluded.oldest_served, excluded.version, excluded.made, excluded.migrated_at);

select set_config('search_path', current_setting('lockstep.search_path'), false);

-- Least privilege for the roles that use the schema @schema@ without owning it. `lockstep roles` prints this.
--
-- Run it as the owner of the schema, in one transaction, after `lockstep migrate` and again after every upgrade, since
-- an upgrade may bring tables and functions that no one but the owner may use yet:
--
--   lockstep roles | psql --single-transaction --set ON_ERROR_STOP=1 "$OWNER_URL"
--
-- Grant these roles to the roles that log in, one or several each: an application that pushes and works has two.
-- `lockstep serve` needs that of a gateway alone.
-- All worker processes should log in as the same role: then they can end the session of one that froze.
-- The owner should not be a superuser: enqueue, enqueue_many, create_queue, add_fairness, set_fairness, grow_queue, note_timeline,
-- tenant_lanes_of, note_tenant_waits, trim_audit, trim_tenants, trim_tenant_lanes, set_limits, take_within_limits, note_held, note_taken, trim_limits, end_leases,
-- remove_expired, throttled_tenants, note_key, recount_key, trim_keys, find_tokens, take_quota,
-- keep_results, round_of, result, trim_results and trim_reply_queues run with its rights.
-- On Postgres 14 and databases that come from one, also REVOKE CREATE ON SCHEMA public FROM PUBLIC: objects in it can
-- shadow built-in operators for everyone who has it on the search_path.

DO $roles$
DECLARE
  _role text;
BEGIN
  FOREACH _role IN ARRAY ARRAY[@names@] LOOP
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = _role) THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN', _role);
    END IF;
  END LOOP;
END
$roles$;

-- The roles have only the rights granted below: what an earlier run or a person granted is revoked first. Everyone may
-- execute a new function, so functions are revoked from PUBLIC too.
REVOKE ALL ON SCHEMA @schema@ FROM @producer@, @worker@, @viewer@, @gateway@;
REVOKE ALL ON TABLE
  @schema@.queues, @schema@.jobs, @schema@.payloads, @schema@.morgue, @schema@.processes, @schema@.counters,
  @schema@.process_reports, @schema@.minute_counters, @schema@.tenant_pushes, @schema@.tenant_lanes, @schema@.tenant_waits, @schema@.holds, @schema@.starts, @schema@.turns, @schema@.limited, @schema@.leases, @schema@.lmstfy_tokens, @schema@.lmstfy_limits, @schema@.request_windows, @schema@.audit, @schema@.api_tokens, @schema@.idempotency_keys, @schema@.results, @schema@.migrations, @schema@.release, @schema@.timeline, @schema@.waiting, @schema@.working, @schema@.dead, @schema@.queue_stats, @schema@.queue_minutes,
  @schema@.process_list
FROM @producer@, @worker@, @viewer@, @gateway@;
REVOKE ALL ON SEQUENCE
  @schema@.fences, @schema@.pushes, @schema@.tenants, @schema@.queues_queue_id_seq, @schema@.processes_process_id_seq
FROM @producer@, @worker@, @viewer@, @gateway@;
REVOKE ALL ON FUNCTION
  @schema@.brief_error, @schema@.bury_failed, @schema@.bury_lowest, @schema@.carries, @schema@.check_jobs, @schema@.check_expiries, @schema@.checked_text, @schema@.claim, @schema@.claim_leased, @schema@.covers,
  @schema@.end_leases, @schema@.extend_leases, @schema@.forget_leases, @schema@.lock_of_fence, @schema@.note_cut, @schema@.settle_leased, @schema@.tries_of, @schema@.expire_leased, @schema@.respawn, @schema@.take_quota,
  @schema@.find_tokens, @schema@.note_key, @schema@.recount_key, @schema@.trim_keys,
  @schema@.enqueue_for_result, @schema@.round_of, @schema@.result, @schema@.keep_results, @schema@.complete_with_results, @schema@.trim_results, @schema@.trim_reply_queues, @schema@.unused_reply_queues, @schema@.forget_queues, @schema@.is_reply_queue, @schema@.hold_queue,
  @schema@.complete, @schema@.create_queue, @schema@.delete_jobs, @schema@.digest_of, @schema@.discard,
  @schema@.enqueue(text, text, jsonb, double precision, timestamptz, integer, jsonb, text, timestamptz),
  @schema@.enqueue(text, anynonarray, jsonb, double precision, timestamptz, integer, jsonb, text, timestamptz),
  @schema@.enqueue_returning_void, @schema@.enqueue_without_tenant, @schema@.enqueue_any_without_tenant,
  @schema@.enqueue_many_without_tenants, @schema@.enqueue_without_expiry, @schema@.enqueue_any_without_expiry,
  @schema@.enqueue_many_without_expiries, @schema@.enqueue_many,
  @schema@.enqueue_many_if_same_transaction,
  @schema@.push_many_if_same_transaction, @schema@.put_many_if_same_transaction, @schema@.fail, @schema@.fail_claims,
  @schema@.from_micros, @schema@.grow_queue, @schema@.has_listener,
  @schema@.installation, @schema@.is_gone, @schema@.kill, @schema@.load_payloads, @schema@.lock_claims,
  @schema@.lock_limits, @schema@.lock_rounds, @schema@.lock_waiting, @schema@.look, @schema@.merges, @schema@.micros,
  @schema@.note_timeline, @schema@.payloads_below, @schema@.payloads_from, @schema@.payloads_of,
  @schema@.payloads_of_round, @schema@.perform_now, @schema@.problem_of, @schema@.problem_of_expiry, @schema@.problem_of_tenant, @schema@.check_tenants, @schema@.lanes_of,
  @schema@.check_limits, @schema@.note_held, @schema@.note_taken, @schema@.rate_window, @schema@.room_for, @schema@.free_places, @schema@.set_limits, @schema@.take_within_limits, @schema@.throttled_tenants, @schema@.trim_limits,
  @schema@.count_holds, @schema@.next_hold, @schema@.old_starts, @schema@.started, @schema@.starts_until, @schema@.next_start, @schema@.note_starts, @schema@.note_turn, @schema@.end_turns, @schema@.leave_places,
  @schema@.push_many, @schema@.push_jobs, @schema@.put_jobs, @schema@.add_fairness, @schema@.check_fairness, @schema@.set_fairness, @schema@.tenant_lane, @schema@.tenant_lanes_of, @schema@.tenants_in, @schema@.give_tenant_lanes, @schema@.trim_tenants, @schema@.trim_tenant_lanes, @schema@.note_tenant_waits, @schema@.pushed_digest,
  @schema@.rehome, @schema@.release, @schema@.remove_expired, @schema@.remove_silent, @schema@.requeue, @schema@.require_read_committed,
  @schema@.shard_of, @schema@.shown_attempts, @schema@.shown_expiry, @schema@.shown_payload, @schema@.sift, @schema@.survey, @schema@.taken_of, @schema@.trim_audit,
  @schema@.unsettled, @schema@.wait_for, @schema@.wake, @schema@.wake_token, @schema@.with_attempt
FROM PUBLIC, @producer@, @worker@, @viewer@, @gateway@;
REVOKE ALL ON PROCEDURE
  @schema@.enqueue_in_transaction,
  @schema@.push_in_transaction, @schema@.put_in_transaction,
  @schema@.enqueue_many_in_transaction,
  @schema@.push_many_in_transaction, @schema@.put_many_in_transaction,
  @schema@.enqueue_many_in_same_transaction,
  @schema@.require_transaction, @schema@.refuse_transaction
FROM PUBLIC, @producer@, @worker@, @viewer@, @gateway@;
GRANT USAGE ON SCHEMA @schema@ TO @producer@, @worker@, @viewer@, @gateway@;

-- A gateway is granted what a producer needs, and of a worker's rights those of a consumer; its own come last.

-- A producer pushes, and creates the queues it pushes into. It can't read or change any row by itself.
GRANT EXECUTE ON FUNCTION
  @schema@.carries, @schema@.enqueue(text, text, jsonb, double precision, timestamptz, integer, jsonb, text, timestamptz),
  @schema@.enqueue(text, anynonarray, jsonb, double precision, timestamptz, integer, jsonb, text, timestamptz),
  @schema@.enqueue_returning_void, @schema@.enqueue_without_tenant, @schema@.enqueue_any_without_tenant,
  @schema@.enqueue_many_without_tenants, @schema@.enqueue_without_expiry, @schema@.enqueue_any_without_expiry,
  @schema@.enqueue_many_without_expiries, @schema@.enqueue_many,
  @schema@.enqueue_many_if_same_transaction,
  @schema@.push_many_if_same_transaction, @schema@.put_many_if_same_transaction,
  @schema@.add_fairness, @schema@.create_queue, @schema@.installation,
  @schema@.note_key, @schema@.recount_key, @schema@.find_tokens, @schema@.take_quota, @schema@.enqueue_for_result, @schema@.round_of, @schema@.result
TO @producer@, @gateway@;
GRANT EXECUTE ON PROCEDURE
  @schema@.enqueue_in_transaction,
  @schema@.push_in_transaction, @schema@.put_in_transaction,
  @schema@.enqueue_many_in_transaction,
  @schema@.push_many_in_transaction, @schema@.put_many_in_transaction,
  @schema@.enqueue_many_in_same_transaction,
  @schema@.require_transaction, @schema@.refuse_transaction
TO @producer@, @gateway@;

-- A worker process claims and settles, keeps its lease, says what it does, grows its queues, moves what a reshard left
-- behind, counts, and buries. It can't read the payloads in the morgue, set a sequence back, ask anything of another
-- process, or change ids, the list of migrations, or anything else about queues.
GRANT EXECUTE ON FUNCTION
  @schema@.brief_error, @schema@.bury_failed, @schema@.bury_lowest, @schema@.claim, @schema@.complete,
  @schema@.create_queue, @schema@.digest_of, @schema@.discard, @schema@.fail, @schema@.fail_claims,
  @schema@.from_micros, @schema@.grow_queue, @schema@.installation, @schema@.is_gone, @schema@.load_payloads,
  @schema@.lock_claims, @schema@.lock_rounds, @schema@.look, @schema@.micros, @schema@.note_timeline, @schema@.payloads_below,
  @schema@.payloads_from, @schema@.payloads_of, @schema@.payloads_of_round, @schema@.rehome, @schema@.release,
  @schema@.remove_expired, @schema@.remove_silent, @schema@.require_read_committed, @schema@.shard_of, @schema@.shown_expiry, @schema@.shown_payload,
  @schema@.note_held, @schema@.note_taken, @schema@.set_fairness, @schema@.set_limits, @schema@.sift, @schema@.survey, @schema@.take_within_limits, @schema@.taken_of, @schema@.tenant_lanes_of,
  @schema@.throttled_tenants, @schema@.trim_audit, @schema@.trim_limits, @schema@.trim_tenants, @schema@.trim_tenant_lanes, @schema@.note_tenant_waits, @schema@.unsettled, @schema@.wait_for,
  @schema@.wake, @schema@.wake_token, @schema@.with_attempt,
  @schema@.claim_leased, @schema@.end_leases, @schema@.extend_leases, @schema@.forget_leases, @schema@.lock_of_fence, @schema@.note_cut,
  @schema@.settle_leased, @schema@.tries_of, @schema@.find_tokens, @schema@.take_quota, @schema@.trim_keys,
  @schema@.keep_results, @schema@.complete_with_results, @schema@.result, @schema@.trim_results, @schema@.trim_reply_queues
TO @worker@, @gateway@;
GRANT EXECUTE ON PROCEDURE @schema@.require_transaction TO @worker@;
GRANT USAGE ON SEQUENCE @schema@.fences TO @worker@, @gateway@;
-- When a worker starts, it checks whether these sequences are behind their rows.
GRANT SELECT ON SEQUENCE @schema@.pushes, @schema@.queues_queue_id_seq, @schema@.processes_process_id_seq TO @worker@, @gateway@;
GRANT SELECT ON TABLE @schema@.queues, @schema@.migrations, @schema@.release, @schema@.queue_stats TO @worker@, @gateway@;
GRANT SELECT, DELETE,
  UPDATE (shard, perform_in, next_perform_in, retry_count, fence, claimed_by, claimed_at, crashes, error, has_payloads,
    score, payload, headers, attempts, expires_in)
ON TABLE @schema@.jobs TO @worker@, @gateway@;
GRANT SELECT, DELETE ON TABLE @schema@.payloads TO @worker@, @gateway@;
GRANT INSERT, UPDATE (score, error, attempts, died_at, tenant, pushed_from, pushed_before) ON TABLE @schema@.morgue TO @worker@, @gateway@;
GRANT SELECT (queue_id, job_id, digest, score, error, attempts, died_at, tenant, pushed_from, pushed_before)
ON TABLE @schema@.morgue TO @worker@;
-- Who removes a dead process locks its row, which takes the right to update some column.
GRANT SELECT, DELETE, UPDATE (expires_at) ON TABLE @schema@.processes TO @worker@, @gateway@;
GRANT SELECT, DELETE ON TABLE @schema@.process_reports TO @worker@, @gateway@;
GRANT INSERT (host, pid, version, slots, queues, lease, expires_at), UPDATE (renewal, quiet)
ON TABLE @schema@.processes TO @worker@;
GRANT INSERT, UPDATE (reported_at, event_loop_delay, memory, shards, doing) ON TABLE @schema@.process_reports TO @worker@;
-- A consumer has the role of a worker, or of a gateway.
GRANT SELECT, INSERT, DELETE, UPDATE (ends_at, cuts) ON TABLE @schema@.leases TO @worker@, @gateway@;
GRANT SELECT, INSERT, UPDATE (processed, failed, expired) ON TABLE @schema@.counters TO @worker@, @gateway@;
GRANT SELECT, INSERT, UPDATE (processed, failed, expired), DELETE ON TABLE @schema@.minute_counters TO @worker@, @gateway@;

-- A viewer sees everything about queues and jobs, including payloads: `lockstep stats`, `top`, `jobs find`,
-- `morgue list`, `audit`, and the views. With `tx`, a look asks which database that is in.
GRANT EXECUTE ON FUNCTION
  @schema@.digest_of, @schema@.installation, @schema@.payloads_from, @schema@.payloads_of, @schema@.shown_attempts,
  @schema@.shown_expiry, @schema@.shown_payload,
  @schema@.payloads_below, @schema@.find_tokens, @schema@.take_quota, @schema@.result
TO @viewer@;
GRANT SELECT ON TABLE
  @schema@.queues, @schema@.jobs, @schema@.payloads, @schema@.morgue, @schema@.processes, @schema@.process_reports,
  @schema@.waiting, @schema@.working, @schema@.dead, @schema@.queue_stats, @schema@.queue_minutes, @schema@.process_list,
  @schema@.audit, @schema@.tenant_pushes, @schema@.tenant_lanes, @schema@.limited,
  @schema@.leases, @schema@.results
TO @viewer@;
-- Without the digests of tokens.
GRANT SELECT (name, scopes, queues, rate_requests, rate_per, created_at) ON TABLE @schema@.api_tokens TO @viewer@;

-- A gateway is `lockstep serve`. It also shows jobs and the morgue with their payloads, and does what its clients ask for: it
-- deletes, requeues and respawns, pauses and reshards, notes that in the audit, and administers the tokens of lmstfy's API. It
-- can't be a worker, list the tokens of the HTTP API, read their digests, or read the audit.
GRANT EXECUTE ON FUNCTION
  @schema@.delete_jobs, @schema@.expire_leased, @schema@.lock_waiting, @schema@.requeue, @schema@.respawn, @schema@.lanes_of,
  @schema@.give_tenant_lanes, @schema@.tenants_in
TO @gateway@;
GRANT UPDATE (shards, paused_at) ON TABLE @schema@.queues TO @gateway@;
GRANT SELECT, DELETE ON TABLE @schema@.morgue TO @gateway@;
-- What is dead gets a job, payloads and a lane again.
GRANT USAGE ON SEQUENCE @schema@.pushes, @schema@.tenants TO @gateway@;
GRANT INSERT (queue_id, shard, perform_in, id), UPDATE (lane, tenant) ON TABLE @schema@.jobs TO @gateway@;
GRANT INSERT (queue_id, fence, score, job_id, digest, payload, headers), UPDATE (score, seq, headers, expires_in)
ON TABLE @schema@.payloads TO @gateway@;
GRANT SELECT, INSERT ON TABLE @schema@.tenant_lanes TO @gateway@;
GRANT SELECT ON TABLE @schema@.tenant_waits TO @gateway@;
GRANT SELECT (audit_id), INSERT (audit_id, actor, queue, action, details), UPDATE (ended_at, affected, error)
ON TABLE @schema@.audit TO @gateway@;
GRANT SELECT, INSERT (pool, namespace, digest, token, description), DELETE ON TABLE @schema@.lmstfy_tokens TO @gateway@;
GRANT SELECT, INSERT, UPDATE (reads, writes, per), DELETE ON TABLE @schema@.lmstfy_limits TO @gateway@;
-- A request that has done nothing is given back.
GRANT SELECT, UPDATE (used) ON TABLE @schema@.request_windows TO @gateway@;

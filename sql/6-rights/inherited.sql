-- Who may execute a function may execute what it calls, and what its callers call beside it. If a release's functions call
-- others than before, processes go on under the roles that they have, until `lockstep roles` is run again.
-- A function that gets another parameter is made anew, and has lost its rights: who completes claims, so `complete` stands for both.
DO $rights$
DECLARE
  _called text;
  _grantee regrole;
BEGIN
  FOR _called, _grantee IN
    SELECT DISTINCT c.called, a.grantee
    FROM (VALUES
      ('complete', 'lock_claims'), ('complete', 'installation'), ('complete', 'require_transaction'),
      ('fail', 'discard'), ('fail', 'fail_claims'), ('fail', 'bury_failed'), ('fail', 'with_attempt'), ('fail', 'brief_error'),
      ('complete', 'trim_audit'), ('complete', 'trim_tenants'), ('complete', 'trim_tenant_lanes'), ('complete', 'note_tenant_waits'), ('complete', 'throttled_tenants'), ('create_queue', 'add_fairness'), ('complete', 'set_fairness'),
      ('complete', 'take_within_limits'), ('complete', 'note_taken'), ('complete', 'set_limits'), ('complete', 'note_held'), ('complete', 'trim_limits'),
      ('complete', 'claim'), ('complete', 'claim_leased'), ('complete', 'note_cut'), ('complete', 'tries_of'), ('complete', 'extend_leases'), ('complete', 'lock_of_fence'),
      ('complete', 'taken_of'), ('complete', 'remove_expired'), ('payloads_of', 'shown_expiry'),
      ('complete', 'settle_leased'), ('complete', 'forget_leases'), ('complete', 'end_leases'),
      ('enqueue_in_transaction', 'push_in_transaction'), ('enqueue_many_in_transaction', 'push_many_in_transaction'),
      ('enqueue_many_if_same_transaction', 'push_many_if_same_transaction'),
      ('enqueue_in_transaction', 'put_in_transaction'), ('enqueue_many_in_transaction', 'put_many_in_transaction'),
      ('enqueue_many_if_same_transaction', 'put_many_if_same_transaction'),
      ('bury_lowest', 'digest_of'), ('bury_lowest', 'payloads_below'),
      ('payloads_of', 'digest_of'), ('payloads_of', 'payloads_below'), ('payloads_of', 'shown_attempts'),
      ('complete', 'trim_keys'), ('enqueue_many', 'note_key'), ('enqueue_many', 'recount_key'), ('installation', 'find_tokens'), ('installation', 'take_quota'),
      ('complete', 'keep_results'), ('complete', 'complete_with_results'), ('complete', 'trim_results'), ('complete', 'trim_reply_queues'), ('complete', 'result'),
      ('enqueue_many', 'enqueue_for_result'), ('enqueue_many', 'round_of'), ('enqueue_many', 'result'), ('payloads_of', 'result'),
      ('kill', 'digest_of'), ('look', 'tenant_lanes_of'), ('survey', 'sift'),
      ('perform_now', 'with_attempt'), ('perform_now', 'brief_error'), ('requeue', 'with_attempt'), ('requeue', 'brief_error'), ('requeue', 'lanes_of')
    ) AS c(caller, called)
    JOIN pg_proc p ON p.proname = c.caller AND p.pronamespace = '@schema@'::regnamespace
    CROSS JOIN aclexplode(p.proacl) a
    WHERE a.grantee <> 0
  LOOP
    EXECUTE format('GRANT EXECUTE ON ROUTINE %s.%I TO %s', '@schema@', _called, _grantee);
  END LOOP;
END
$rights$;

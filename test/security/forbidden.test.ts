import { describe, expect, test } from 'vitest'
import { prefix, useRoles } from './role-environment.ts'

const env = useRoles()

/** Something that a role might do to an object, and the statement that tries it. */
interface Deed {
  readonly what: string
  readonly text: string
}

describe('each role can do nothing else', () => {
  const MAY: Record<string, readonly string[]> = {
    stranger: [],
    producer: [
      ...[
        'carries',
        'create_queue',
        ...['enqueue', 'enqueue'],
        'enqueue_in_transaction',
        'enqueue_many',
        'enqueue_many_if_same_transaction',
        'enqueue_many_in_same_transaction',
        'enqueue_returning_void',
        ...['enqueue_any_without_tenant', 'enqueue_many_without_tenants', 'enqueue_without_tenant'],
        ...['enqueue_any_without_expiry', 'enqueue_many_without_expiries', 'enqueue_without_expiry'],
        ...['put_in_transaction', 'put_many_if_same_transaction', 'put_many_in_transaction'],
        ...[
          'push_in_transaction',
          'push_many_if_same_transaction',
          'push_many_in_transaction',
          'add_fairness',
        ],
      ],
      ...['enqueue_many_in_transaction', 'installation', 'refuse_transaction', 'require_transaction'],
      ...['find_tokens', 'take_quota', 'note_key', 'recount_key', 'enqueue_for_result', 'result', 'round_of'],
    ].map((name) => `EXECUTE ${name}`),
    worker: [
      ...['bury_lowest', 'claim', 'complete', 'create_queue', 'discard', 'fail', 'from_micros', 'grow_queue'],
      ...[
        'brief_error',
        'bury_failed',
        'fail_claims',
        ...['note_held', 'note_taken', 'set_fairness', 'set_limits', 'take_within_limits'],
        ...[
          'note_tenant_waits',
          'throttled_tenants',
          'trim_audit',
          'trim_limits',
          'trim_tenant_lanes',
          'trim_tenants',
        ],
        ...[
          'claim_leased',
          'end_leases',
          'extend_leases',
          'forget_leases',
          'lock_of_fence',
          'note_cut',
          'settle_leased',
          'tries_of',
        ],
        ...[
          'find_tokens',
          'take_quota',
          'trim_keys',
          'complete_with_results',
          'keep_results',
          'result',
          'trim_results',
          'trim_reply_queues',
        ],
        'tenant_lanes_of',
        ...['remove_expired', 'shown_expiry', 'taken_of'],
        'with_attempt',
      ],
      ...['wake_token', 'digest_of', 'lock_claims', 'lock_rounds', 'payloads_below'],
      ...[
        'installation',
        'is_gone',
        'load_payloads',
        'look',
        'micros',
        'note_timeline',
        'payloads_from',
        'payloads_of',
        'payloads_of_round',
        'rehome',
        'release',
        'remove_silent',
        'require_read_committed',
        'require_transaction',
      ],
      ...['shard_of', 'shown_payload', 'sift', 'survey', 'unsettled', 'wait_for', 'wake'],
    ]
      .map((name) => `EXECUTE ${name}`)
      .concat([
        'DELETE jobs',
        'DELETE leases',
        'DELETE minute_counters',
        'DELETE payloads',
        'DELETE process_reports',
        'DELETE processes',
        'INSERT counters',
        'INSERT leases',
        'INSERT minute_counters',
        'INSERT morgue',
        'INSERT process_reports',
        'INSERT processes',
        'NEXTVAL fences',
        'SELECT counters',
        'SELECT jobs',
        'SELECT leases',
        'SELECT migrations',
        'SELECT minute_counters',
        'SELECT payloads',
        'SELECT process_reports',
        'SELECT processes',
        'SELECT processes_process_id_seq',
        'SELECT pushes',
        'SELECT queue_stats',
        'SELECT queues',
        'SELECT queues_queue_id_seq',
        'SELECT release',
        'UPDATE counters.expired',
        'UPDATE counters.failed',
        'UPDATE counters.processed',
        ...['claimed_at', 'claimed_by', 'crashes', 'error', 'fence', 'next_perform_in', 'perform_in'].map(
          (column) => `UPDATE jobs.${column}`,
        ),
        ...[
          'attempts',
          'expires_in',
          'has_payloads',
          'headers',
          'payload',
          'retry_count',
          'score',
          'shard',
        ].map((column) => `UPDATE jobs.${column}`),
        ...['cuts', 'ends_at'].map((column) => `UPDATE leases.${column}`),
        'UPDATE minute_counters.expired',
        'UPDATE minute_counters.failed',
        'UPDATE minute_counters.processed',
        ...['attempts', 'died_at', 'error', 'pushed_before', 'pushed_from', 'score', 'tenant'].map(
          (column) => `UPDATE morgue.${column}`,
        ),
        ...['doing', 'event_loop_delay', 'memory', 'reported_at', 'shards'].map(
          (column) => `UPDATE process_reports.${column}`,
        ),
        'UPDATE processes.expires_at',
        'UPDATE processes.quiet',
        'UPDATE processes.renewal',
      ]),
    viewer: [
      ...[
        'digest_of',
        'find_tokens',
        'installation',
        'payloads_below',
        'payloads_from',
        'payloads_of',
        'result',
        'shown_attempts',
        'shown_expiry',
        'shown_payload',
        'take_quota',
      ].map((name) => `EXECUTE ${name}`),
      ...[
        'audit',
        'tenant_lanes',
        'tenant_pushes',
        'dead',
        'jobs',
        'leases',
        'limited',
        'morgue',
        'payloads',
        'process_list',
        'process_reports',
        'processes',
        'queue_minutes',
      ],
      ...['queue_stats', 'queues', 'results'],
      ...['waiting', 'working'],
    ].map((what) => (what.includes(' ') ? what : `SELECT ${what}`)),
  }

  /** What a worker does as a process of its own. A gateway does the rest, beside what a producer does. */
  const REGISTERS: readonly string[] = [
    ...['INSERT process_reports', 'INSERT processes', 'UPDATE processes.quiet', 'UPDATE processes.renewal'],
    ...['doing', 'event_loop_delay', 'memory', 'reported_at', 'shards'].map(
      (column) => `UPDATE process_reports.${column}`,
    ),
  ]
  const { producer, worker } = MAY as Record<'producer' | 'worker', readonly string[]>
  MAY.gateway = [
    ...producer,
    ...worker.filter((what) => !REGISTERS.includes(what) && !producer.includes(what)),
    ...[
      'delete_jobs',
      'expire_leased',
      'give_tenant_lanes',
      'lanes_of',
      'lock_waiting',
      'requeue',
      'respawn',
      'tenants_in',
    ].map((name) => `EXECUTE ${name}`),
    ...['audit', 'jobs', 'lmstfy_limits', 'lmstfy_tokens', 'payloads', 'tenant_lanes'].map(
      (name) => `INSERT ${name}`,
    ),
    ...['lmstfy_limits', 'lmstfy_tokens', 'morgue', 'request_windows', 'tenant_lanes', 'tenant_waits'].map(
      (name) => `SELECT ${name}`,
    ),
    ...['lmstfy_limits', 'lmstfy_tokens', 'morgue'].map((name) => `DELETE ${name}`),
    ...['affected', 'ended_at', 'error'].map((column) => `UPDATE audit.${column}`),
    ...['lane', 'tenant'].map((column) => `UPDATE jobs.${column}`),
    ...['per', 'reads', 'writes'].map((column) => `UPDATE lmstfy_limits.${column}`),
    ...['expires_in', 'headers', 'score', 'seq'].map((column) => `UPDATE payloads.${column}`),
    ...['paused_at', 'shards'].map((column) => `UPDATE queues.${column}`),
    'UPDATE request_windows.used',
    ...['pushes', 'tenants'].map((name) => `NEXTVAL ${name}`),
    // Whoever may update a row may lock it.
    ...['UPDATE', 'KEY SHARE'].map((lock) => `SELECT FROM ${prefix}.queues FOR ${lock}`),
  ]

  /** Everything in the schema, according to the catalog, so that later additions can't be forgotten. */
  async function all(): Promise<Deed[]> {
    const relations = await env.logins.asAdmin<{ name: string; kind: string; columns: string[] }>(
      `SELECT c.relname AS name, c.relkind AS kind, array_agg(a.attname::text) AS columns
       FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
       WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S') GROUP BY c.oid`,
      [prefix],
    )
    const functions = await env.logins.asAdmin<{ name: string; verb: string; types: string[] }>(
      `SELECT p.proname AS name, CASE p.prokind WHEN 'p' THEN 'CALL' ELSE 'SELECT * FROM' END AS verb, ARRAY(
         SELECT CASE t WHEN 'anynonarray'::regtype THEN 'bigint' ELSE format_type(t, NULL) END FROM unnest(p.proargtypes) AS t
       ) AS types
       FROM pg_proc p WHERE p.pronamespace = $1::regnamespace`,
      [prefix],
    )
    return [
      ...relations.flatMap((relation) =>
        relation.kind === 'S' ? sequenceDeeds(relation.name) : tableDeeds(relation),
      ),
      ...functions.map(({ name, verb, types }) => ({
        what: `EXECUTE ${name}`,
        text: `${verb} ${prefix}.${name}(${types.map((type) => `NULL::${type}`).join(', ')})`,
      })),
      ...DEFINITIONS.map((text) => ({ what: text, text })),
    ]
  }

  function tableDeeds({ name, kind, columns }: { name: string; kind: string; columns: string[] }): Deed[] {
    const table = `${prefix}.${name}`
    return [
      { what: `SELECT ${name}`, text: `SELECT * FROM ${table}` },
      { what: `INSERT ${name}`, text: `INSERT INTO ${table} DEFAULT VALUES` },
      ...columns.map((column) => ({
        what: `UPDATE ${name}.${column}`,
        text: `UPDATE ${table} SET ${column} = DEFAULT`,
      })),
      { what: `DELETE ${name}`, text: `DELETE FROM ${table} WHERE false` },
      ...(kind === 'v' ? [] : [{ what: `TRUNCATE ${name}`, text: `TRUNCATE ${table}` }]),
    ]
  }

  function sequenceDeeds(name: string): Deed[] {
    const sequence = `${prefix}.${name}`
    return [
      { what: `NEXTVAL ${name}`, text: `SELECT nextval('${sequence}')` },
      { what: `SETVAL ${name}`, text: `SELECT setval('${sequence}', 1)` },
      { what: `SELECT ${name}`, text: `SELECT last_value FROM ${sequence}` },
    ]
  }

  const DEFINITIONS = [
    `CREATE TABLE ${prefix}.mine ()`,
    `CREATE VIEW ${prefix}.mine AS SELECT 1`,
    `CREATE SEQUENCE ${prefix}.mine`,
    `CREATE DOMAIN ${prefix}.mine AS text`,
    `CREATE FUNCTION ${prefix}.mine() RETURNS integer LANGUAGE sql RETURN 1`,
    `CREATE INDEX ON ${prefix}.jobs (fence)`,
    `CREATE TRIGGER mine BEFORE UPDATE ON ${prefix}.jobs EXECUTE FUNCTION suppress_redundant_updates_trigger()`,
    `CREATE POLICY mine ON ${prefix}.jobs`,
    `CREATE RULE mine AS ON INSERT TO ${prefix}.jobs DO ALSO NOTHING`,
    `ALTER TABLE ${prefix}.jobs ADD COLUMN mine integer`,
    `ALTER FUNCTION ${prefix}.enqueue_many SECURITY INVOKER`,
    `ALTER FUNCTION ${prefix}.micros COST 7`,
    `ALTER SCHEMA ${prefix} RENAME TO mine`,
    `COMMENT ON TABLE ${prefix}.jobs IS 'mine'`,
    `DROP TABLE ${prefix}.payloads`,
    `DROP FUNCTION ${prefix}.claim`,
    `DROP SCHEMA ${prefix} CASCADE`,
    `LOCK TABLE ${prefix}.queues IN EXCLUSIVE MODE`,
    `SELECT FROM ${prefix}.queues FOR UPDATE`,
    `SELECT FROM ${prefix}.queues FOR KEY SHARE`,
  ]

  /** The SQLSTATE of each deed, tried by `name` and rolled back; `DONE!` if it worked. */
  async function attempts(name: string, deeds: readonly Deed[]): Promise<Map<string, string>> {
    const client = await env.session(name).connect()
    try {
      await client.query(`CREATE FUNCTION pg_temp.attempt(_text text) RETURNS text LANGUAGE plpgsql AS $$
        BEGIN
          EXECUTE _text;
          RAISE EXCEPTION USING ERRCODE = 'DONE!';
        EXCEPTION WHEN OTHERS THEN
          RETURN SQLSTATE;
        END $$`)
      const { rows } = await client.query<{ what: string; code: string }>(
        'SELECT d.what, pg_temp.attempt(d.text) AS code FROM unnest($1::text[], $2::text[]) AS d(what, text)',
        [deeds.map(({ what }) => what), deeds.map(({ text }) => text)],
      )
      return new Map(rows.map(({ what, code }) => [what, code]))
    } finally {
      client.release()
    }
  }

  /** Excludes what a view allows no role, and refuses before it checks rights. */
  async function possible(): Promise<Deed[]> {
    const deeds = await all()
    const onViews = deeds.filter(({ what }) => WRITES_A_VIEW.test(what))
    const codes = await attempts('owner', onViews)
    return deeds.filter(({ what }) => !NOT_OF_A_VIEW.includes(codes.get(what) ?? ''))
  }
  const WRITES_A_VIEW =
    /^(INSERT|UPDATE|DELETE) (waiting|working|dead|limited|queue_stats|queue_minutes|process_list)\b/
  const NOT_OF_A_VIEW = ['55000', '0A000', '428C9']

  test.each(Object.keys(MAY))('%s', async (name) => {
    const deeds = await possible()
    expect(deeds.length).toBeGreaterThan(150)
    const codes = await attempts(name, deeds)
    const done = deeds.map(({ what }) => what).filter((what) => codes.get(what) !== '42501')
    expect(done.sort()).toEqual([...MAY[name]!].sort())
  })

  test('nobody may hand on what was granted, and everybody has nothing', async () => {
    const grantable = await env.logins.asAdmin(
      `SELECT c.relname FROM pg_class c, aclexplode(c.relacl) a
       WHERE c.relnamespace = $1::regnamespace AND a.is_grantable AND a.grantee <> c.relowner
       UNION ALL SELECT p.proname FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
       WHERE p.pronamespace = $1::regnamespace AND (a.grantee = 0 OR a.is_grantable AND a.grantee <> p.proowner)`,
      [prefix],
    )
    expect(grantable).toEqual([])
  })
})

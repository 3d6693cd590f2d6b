import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { Lockstep, type Queue } from '../../src/index.ts'
import { startPooler } from '../support/pooler.ts'
import { next, type TransactionalPerform, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

type Tx = Parameters<TransactionalPerform>[1]['tx']

const SETTINGS = [
  ...['statement_timeout', 'search_path', 'role', 'app.tenant', 'default_transaction_read_only'],
  // Settings that we make.
  ...['default_transaction_isolation', 'tcp_keepalives_idle', 'client_connection_check_interval'],
]

/** What a handler finds in its session. */
async function look(tx: Tx) {
  const { rows } = await tx.query(
    `SELECT pg_backend_pid() AS pid, current_user AS "user", to_regclass('pg_temp.left_behind') AS "table",
       (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks,
       (SELECT count(*)::int FROM pg_cursors WHERE is_holdable) AS cursors,
       ARRAY(SELECT s || '=' || coalesce(nullif(current_setting(s, true), ''), '-') FROM unnest($1::text[]) AS s) AS settings`,
    [SETTINGS],
  )
  const { pid, ...rest } = rows[0]
  return { pid, rest }
}

type Found = Awaited<ReturnType<typeof look>>

/** The first handler looks and leaves things behind, the second one looks. */
async function twice(lockstep: Lockstep, leave: (tx: Tx) => Promise<unknown>): Promise<[Found, Found]> {
  const found: Found[] = []
  const queue: Queue = env.transactional({
    perform: async (_, { tx }) => {
      found.push(await look(tx))
      if (found.length === 1) await leave(tx)
    },
  })
  const worker = env.create({ queues: [queue], slots: 1 }, lockstep)
  await worker.start()
  for (const id of ['first', 'second']) {
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(queue, { id })
    await completed
  }
  return found as [Found, Found]
}

test('what a handler sets for its session, and leaves in it, does not reach the next one', async () => {
  const role = `lender ${randomUUID()}`
  await env.sql(`CREATE ROLE "${role}" SUPERUSER`)
  env.later(() => env.sql(`DROP ROLE "${role}"`))
  const [first, second] = await twice(env.lockstep, async (tx) => {
    await tx.query('CREATE TEMP TABLE left_behind ()')
    await tx.query('SELECT pg_advisory_lock(4711)')
    await tx.query('DECLARE left_open CURSOR WITH HOLD FOR SELECT 1')
    await tx.query(
      `SET statement_timeout = 12345; SET search_path = pg_temp; SET default_transaction_read_only = on`,
    )
    await tx.query(`SET default_transaction_isolation = serializable; SET tcp_keepalives_idle = 60`)
    await tx.query(`SELECT set_config('app.tenant', 'somebody', false)`)
    await tx.query(`SET ROLE "${role}"`)
  })
  expect(second.pid).toBe(first.pid)
  expect(second.rest).toEqual(first.rest)
  expect(first.rest.settings).toContain('default_transaction_isolation=read committed')
  expect(first.rest.settings).toContain('tcp_keepalives_idle=3')
})

test('what a handler leaves in a session that a pooler shares with others is left to them', async () => {
  const { connectionString } = env
  const pooler = await startPooler(connectionString)
  env.later(() => pooler.close())
  const lockstep = new Lockstep({
    connectionString: pooler.connectionString,
    directUrl: connectionString,
    logger: env.logger,
  })
  env.later(() => lockstep.close())
  const [first, second] = await twice(lockstep, (tx) => tx.query('SET statement_timeout = 12345'))
  expect(second.pid).toBe(first.pid)
  expect(second.rest.settings).toContain('statement_timeout=12345ms')
})

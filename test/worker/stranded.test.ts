import pg from 'pg'
import { expect, test } from 'vitest'
import { connect, disconnect } from '../../src/postgres/connection.ts'
import { Database } from '../../src/postgres/database.ts'
import { backendOf, prepareSession } from '../../src/postgres/session.ts'
import { endIdle } from '../../src/store/process.ts'
import { StrandedSessions } from '../../src/worker/membership/stranded.ts'
import { Pools } from '../../src/worker/pools.ts'
import { backends } from '../support/backends.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

const waiting = () =>
  env.sql<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity
     WHERE wait_event = 'advisory' AND query LIKE '%written%' AND datname = current_database()`,
  )

test('the session of a pool’s connection that breaks for the worker alone, while it idles, is ended', async () => {
  const { network, lockstep } = await env.distant()
  const worker = env.create({ queues: [env.queue({ perform() {} })] }, lockstep)
  await worker.start()
  const idle = await backends(env, 'pool')
  expect(idle).not.toEqual([])
  network.abandon()
  await eventually(async () => {
    expect(await env.sql('SELECT query FROM pg_stat_activity WHERE pid = ANY ($1)', [idle])).toEqual([])
  })
})

async function open(): Promise<pg.Client> {
  const client = new pg.Client(env.connectionString)
  client.on('error', () => {})
  await client.connect()
  env.later(() => client.end().catch(() => {}))
  await prepareSession(client, 'own')
  return client
}

async function ended(client: object): Promise<boolean> {
  const { pid } = backendOf(client)!
  return (await env.sql('SELECT FROM pg_stat_activity WHERE pid = $1', [pid])).length === 0
}

test('a session that is in the middle of a statement ends after it', async () => {
  const config = { connectionString: env.connectionString }
  const home = { config, directConfig: config, schema: 'lockstep', logger: env.logger, instrumentation: [] }
  const pools = new Pools(1, home)
  env.later(() => pools.end())
  await env.sql('CREATE TABLE written (id int)')
  const client = await open()
  const holder = await env.session()
  await holder.query('SELECT pg_advisory_lock(1)')
  const written = client.query('INSERT INTO written SELECT 1 FROM pg_advisory_xact_lock(1)')
  const { pid } = backendOf(client)!
  await eventually(async () => expect(await waiting()).toEqual([{ pid }]))
  pools.stranded.add(client)
  // It has been tried, and will be tried again.
  await eventually(() => expect(pools.stranded.pending).toBe(true))
  await holder.query('SELECT pg_advisory_unlock(1)')
  await written
  expect(await env.sql('SELECT FROM written')).toHaveLength(1)
  await eventually(async () => {
    await pools.stranded.end()
    expect(await ended(client)).toBe(true)
  })
})

test('R12: who waits until given-up sessions have ended, waits for a try that is under way', async () => {
  const pool = new pg.Pool({ connectionString: env.connectionString, max: 1 })
  env.later(() => pool.end())
  const stranded = new StrandedSessions(new Database(pool, 'lockstep'), env.logger)
  const client = await open()
  const only = await pool.connect()
  stranded.add(client)
  let answered = false
  const ending = stranded.end().then(() => {
    answered = true
  })
  await env.sql('SELECT 1')
  expect([stranded.pending, answered]).toEqual([false, false])
  only.release()
  await ending
  await eventually(async () => expect(await ended(client)).toBe(true))
})

test('a given-up session is ended in the end, whatever kept it from being ended before', async () => {
  const stranger = new URL(env.connectionString)
  stranger.username = 'nobody_of_that_name'
  const pool = new pg.Pool({ connectionString: stranger.href, max: 1 })
  env.later(() => pool.end())
  const stranded = new StrandedSessions(new Database(pool, 'lockstep'), env.logger)
  const client = await open()
  stranded.add(client)
  await stranded.end()
  await stranded.end()
  expect(stranded.pending).toBe(true)
  expect(env.warnings.map(({ message }) => message)).toEqual([
    'ending the sessions of connections that were given up failed',
  ])
  pool.options.connectionString = env.connectionString
  await stranded.end()
  await eventually(async () => expect(await ended(client)).toBe(true))
})

test.each([
  ['may not end', 'IN ROLE pg_read_all_stats'],
  ['can’t see', ''],
])('one that the worker’s role %s keeps no other from being ended, and is told once', async (_, rights) => {
  const role = `watcher_${process.pid}`
  await env.sql(`CREATE ROLE ${role} LOGIN PASSWORD 'secret' ${rights}`)
  env.later(() => env.sql(`DROP ROLE ${role}`))
  const url = new URL(env.connectionString)
  url.username = role
  url.password = 'secret'
  const pool = new pg.Pool({ connectionString: url.href, max: 1 })
  env.later(() => pool.end())
  const own = new pg.Client({ connectionString: url.href })
  own.on('error', () => {})
  await own.connect()
  await prepareSession(own, 'own')
  const foreign = await open()
  const stranded = new StrandedSessions(new Database(pool, 'lockstep'), env.logger)
  const only = await pool.connect()
  for (const client of [foreign, own]) stranded.add(client)
  only.release()
  await stranded.end()
  await stranded.end()
  await eventually(async () => expect(await ended(own)).toBe(true))
  expect(await ended(foreign)).toBe(false)
  expect(env.warnings.map(({ message }) => message)).toEqual([
    'the session of a connection that was given up can’t be ended',
  ])
})

test('a pool’s session that nobody uses any more ends by itself, and one with locks does not', async () => {
  const idleTimeout = async (on: Pick<pg.ClientBase, 'query'>) =>
    (await on.query('SHOW idle_session_timeout')).rows[0].idle_session_timeout
  const config = { connectionString: env.connectionString }
  const home = { config, directConfig: config, schema: 'lockstep', logger: env.logger, instrumentation: [] }
  const pools = new Pools(1, home)
  env.later(() => pools.end())
  expect(await idleTimeout(pools.own.pool)).toBe('10min')
  // Also once it has been lent, and renewed.
  for (let lent = 0; lent < 2; lent += 1)
    expect(await pools.handlers.transaction(idleTimeout, { lends: true })).toBe('10min')
  const holder = await connect(config)
  env.later(() => disconnect(holder))
  expect(await idleTimeout(holder)).toBe('0')
})

test('a session that has only its number from one that was given up goes on', async () => {
  const database = new Database(env.pool, 'lockstep')
  const client = await open()
  const backend = backendOf(client)!
  const former = { ...backend, startedAt: String(Number(backend.startedAt) - 60) }
  expect(await endIdle(database, [former])).toEqual([])
  await client.query('SELECT 1')
  expect(await endIdle(database, [backend])).toEqual([{ ...backend, ended: true, hidden: false }])
  await eventually(async () => expect(await ended(client)).toBe(true))
})

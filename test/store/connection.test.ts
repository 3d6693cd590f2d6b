import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { inspect } from 'node:util'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { defineQueue, Lockstep, type TransactionalContext } from '../../src/index.ts'
import { silentLogger } from '../../src/logger.ts'
import { connect, connectionConfig } from '../../src/postgres/connection.ts'
import { Database } from '../../src/postgres/database.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { requireMigrated } from '../../src/postgres/release.ts'
import { prepareSession } from '../../src/postgres/session.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { Network } from '../support/network.ts'
import { poolOn } from '../support/store-environment.ts'
import { eventually } from '../support/worker-environment.ts'

let server: TestDatabase
const undo: (() => Promise<unknown>)[] = []

beforeEach(async () => {
  server = await createDatabase()
  undo.push(() => server.drop())
})
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

function open(connectionString = server.connectionString): Database {
  const pool = poolOn(connectionString)
  undo.push(() => pool.end())
  return new Database(pool, 'lockstep')
}

const urlWith = (parts: Partial<URL>) => Object.assign(new URL(server.connectionString), parts).href

/** The results of migrating, pushing and starting a worker with this connection string. */
async function failures(connectionString: string): Promise<unknown[]> {
  const lockstep = new Lockstep({ connectionString })
  undo.push(() => lockstep.close())
  const attempts = [
    lockstep.migrate(),
    lockstep.enqueue(defineQueue('orders'), { id: 'a' }),
    requireMigrated(open(connectionString)),
  ]
  return Promise.all(
    attempts.map((attempt) =>
      attempt.then(
        () => 'no error',
        (error) => error,
      ),
    ),
  )
}

const saying = (code: string, words: string) =>
  expect.objectContaining({ name: 'DatabaseError', code, message: expect.stringContaining(words) })

describe('a connection that is not what it has to be says what to do', () => {
  test('a read-only one: replicas are', async () => {
    await migrate(open())
    await open().query(
      `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`,
    )
    const [migrated, pushed] = await failures(server.connectionString)
    expect(migrated).toEqual(saying('LOCKSTEP_READ_ONLY', 'connect to the primary'))
    expect(pushed).toEqual(saying('LOCKSTEP_READ_ONLY', 'connect to the primary'))
  })

  test('one with a wrong password, which is never printed', async () => {
    const secret = 'not-the-password-4711'
    for (const error of await failures(urlWith({ password: secret }))) {
      expect(error).toEqual(saying('LOCKSTEP_AUTHENTICATION', 'check the user and password'))
      expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(secret)
    }
  })

  test('one where nobody listens', async () => {
    for (const error of await failures(urlWith({ port: '1' })))
      expect(error).toEqual(saying('LOCKSTEP_CONNECTION', 'check the host and port'))
  })

  test('one to a database or a host that is not there', async () => {
    for (const error of await failures(urlWith({ pathname: '/nowhere' })))
      expect(error).toEqual(saying('LOCKSTEP_CONNECTION', '"nowhere"'))
    for (const error of await failures(urlWith({ hostname: 'nowhere.invalid' })))
      expect(error).toEqual(saying('LOCKSTEP_CONNECTION', 'host name'))
  })

  test('one whose role may do nothing', async () => {
    await migrate(open())
    const role = `nobody_${process.pid}`
    await open().query(`CREATE ROLE ${role} LOGIN PASSWORD 'none'`)
    undo.unshift(() => dropRole(role))
    for (const error of await failures(urlWith({ username: role, password: 'none' })))
      expect(error).toEqual(saying('LOCKSTEP_PERMISSION', 'permission denied'))
  })
})

/**
 * Drops a role that has rights in the test's database. `undo` runs in reverse order, so that database is gone by then.
 */
async function dropRole(role: string): Promise<void> {
  const other = await createDatabase()
  const pool = poolOn(other.connectionString)
  await pool.query(`DROP ROLE ${role}`)
  await pool.end()
  await other.drop()
}

test('a session that breaks while nothing is asked of it ends no process: what is asked next fails', async () => {
  const session = await connect(connectionConfig(server.connectionString, 'idle'))
  const ended = new Promise<void>((resolve) => session.once('end', resolve))
  const { rows } = await session.query('SELECT pg_backend_pid() AS pid')
  await open().query('SELECT pg_terminate_backend($1)', [rows[0].pid])
  await ended
  await expect(session.query('SELECT 1')).rejects.toThrow(/closed|not queryable|terminated/)
})

test('one of the application’s pool that breaks in the midst of a call ends no process: the call fails by its code', async () => {
  await migrate(open())
  const network = await Network.to(server.connectionString)
  undo.push(async () => network.close())
  const pool = poolOn(network.connectionString)
  undo.push(() => pool.end())
  const lockstep = new Lockstep({ pool })
  const queue = defineQueue('orders')
  await lockstep.enqueue(queue, { id: 'a' })
  const holder = await open().connect()
  undo.push(async () => holder.release())
  const calls = {
    'many jobs': () =>
      lockstep.enqueue(
        queue,
        Array.from({ length: 1_100 }, (_, id) => ({ id: `${id}` })),
      ),
    kill: () => lockstep.kill(queue, {}),
    deleteQueue: () => lockstep.deleteQueue('orders', { withJobs: true }),
    migrate: () => lockstep.migrate(),
  }
  const watcher = open()
  const others = async (state: string) => {
    const there = 'datname = current_database() AND pid <> pg_backend_pid()'
    return (await watcher.query(`SELECT FROM pg_stat_activity WHERE ${there} AND ${state}`)).length
  }
  for (const [name, call] of Object.entries(calls)) {
    await holder.query('BEGIN; LOCK lockstep.queues, lockstep.jobs')
    // The lock that migrations take, so that a migration has something to wait for.
    await holder.query(`SELECT pg_advisory_xact_lock(hashtextextended('pg-lockstep migrate lockstep', 0))`)
    const failed = Promise.resolve(call()).catch((error) => error)
    await eventually(async () => expect(await others(`wait_event_type = 'Lock'`)).toBeGreaterThan(0))
    network.cut()
    expect(await failed, name).toMatchObject({ code: 'LOCKSTEP_CONNECTION' })
    await holder.query('ROLLBACK')
    // Waits until what was under way at the server has ended by itself.
    await eventually(async () => expect(await others(`state = 'active'`)).toBe(0))
    network.restore()
  }
})

test('one that breaks as it is opened is told by its code', async () => {
  const reset = createServer((socket) => socket.resetAndDestroy()).listen(0, '127.0.0.1')
  undo.push(async () => reset.close())
  await once(reset, 'listening')
  const { port } = reset.address() as AddressInfo
  for (const error of await failures(urlWith({ port: `${port}` })))
    expect(error).toEqual(saying('LOCKSTEP_CONNECTION', ''))
})

test('what holds in sessions of an application’s pool holds in those of its workers, where handlers run', async () => {
  await migrate(open())
  const options = { options: '-c search_path=shop', statement_timeout: 5_000, lock_timeout: 4_000 }
  const pool = poolOn(server.connectionString, { ...options, idle_in_transaction_session_timeout: 3_000 })
  undo.push(() => pool.end())
  const lockstep = new Lockstep({ pool, logger: silentLogger })
  const names = ['search_path', 'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']
  const settings = names.map((name) => `current_setting('${name}') AS ${name}`).join(', ')
  const told = new Promise((resolve) => {
    const perform = async (_: unknown, { tx }: TransactionalContext) =>
      resolve((await tx.query(`SELECT ${settings}`)).rows[0])
    const worker = lockstep.createWorker({ queues: [defineQueue('told', { transactional: true, perform })] })
    undo.push(() => worker.stop())
    void worker.start().then(() => lockstep.enqueue(defineQueue('told'), { id: 'a' }))
  })
  expect(await told).toEqual((await pool.query(`SELECT ${settings}`)).rows[0])
  expect(await told).toMatchObject({ search_path: 'shop', statement_timeout: '5s' })
})

test('a connection that goes silent just as it was opened is given up after the time of a call', async () => {
  const network = await Network.to(server.connectionString)
  undo.push(async () => network.close())
  const client = new pg.Client({ connectionString: network.connectionString })
  client.on('error', () => {})
  await client.connect()
  network.silence()
  await expect(prepareSession(client, 'lent', 200)).rejects.toThrow('timeout')
})

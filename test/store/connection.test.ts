import { inspect } from 'node:util'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { connect, connectionConfig } from '../../src/postgres/connection.ts'
import { Database } from '../../src/postgres/database.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { requireMigrated } from '../../src/postgres/release.ts'
import { prepareSession } from '../../src/postgres/session.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { Network } from '../support/network.ts'
import { poolOn } from '../support/rounds.ts'

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

/** What comes of migrating, pushing and starting a worker there. */
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
      expect(error).toEqual(saying('LOCKSTEP_AUTHENTICATION', 'check user and password'))
      expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(secret)
    }
  })

  test('one where nobody listens', async () => {
    for (const error of await failures(urlWith({ port: '1' })))
      expect(error).toEqual(saying('LOCKSTEP_CONNECTION', 'check host and port'))
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

/** Once the database is gone, where it had no rights; `undo` runs backwards. */
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

test('a connection that goes silent just as it was opened is given up after the time of a call', async () => {
  const network = await Network.to(server.connectionString)
  undo.push(async () => network.close())
  const client = new pg.Client({ connectionString: network.connectionString })
  client.on('error', () => {})
  await client.connect()
  network.silence()
  await expect(prepareSession(client, 'lent', 200)).rejects.toThrow('timeout')
})

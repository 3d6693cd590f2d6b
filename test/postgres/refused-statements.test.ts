import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { Database } from '../../src/postgres/database.ts'
import { type PushedJob, push, pushWithin } from '../../src/store/push.ts'
import { createMigrated } from '../support/database.ts'

const JOB: PushedJob = {
  id: 'a',
  payload: '1',
  score: null,
  performIn: null,
  lane: null,
  headers: null,
  tenant: null,
  expiresIn: null,
}

async function openDatabase() {
  const { connectionString, drop } = await createMigrated()
  const pool = new pg.Pool({ connectionString, max: 3 })
  pool.on('error', () => {})
  let opened = 0
  pool.on('connect', () => {
    opened += 1
  })
  onTestFinished(async () => {
    await pool.end()
    await drop()
  })
  return { pool, database: new Database(pool, 'lockstep'), opened: () => opened }
}

test('statements that are refused for a lock, or by a function of ours, cost no connection', async () => {
  const { database, pool, opened } = await openDatabase()
  await database.run('create_queue', ['queue', 1])
  const holder = await pool.connect()
  onTestFinished(() => holder.release(true))
  await holder.query('BEGIN')
  await holder.query("SELECT lockstep.enqueue('queue', 'held')")
  for (let n = 0; n < 10; n += 1) {
    const locked = Array.from({ length: 6 }, () => pushWithin(database, 1, 'queue', [{ ...JOB, id: 'held' }]))
    const unknown = Array.from({ length: 6 }, () => push(database, 'nowhere', [JOB]))
    for (const one of await Promise.allSettled([...locked, ...unknown])) expect(one.status).toBe('rejected')
  }
  expect(opened()).toBeLessThanOrEqual(3)
  const [row] = await database.query<{ timeout: string }>("SELECT current_setting('lock_timeout') AS timeout")
  expect(row!.timeout).toBe('0')
})

test.each([
  ['a transaction that somebody has left aborted', ['BEGIN', 'SELECT 1 / 0']],
  ['a setting that makes it read only', ['SET default_transaction_read_only = on']],
  ['a role without rights', ['SET ROLE pg_monitor']],
])('a session with %s is closed when it refuses a statement', async (_, statements) => {
  const { database, pool } = await openDatabase()
  await database.run('create_queue', ['queue', 1])
  const left = await pool.connect()
  for (const statement of statements) await left.query(statement).catch(() => {})
  left.release()
  await expect(push(database, 'queue', [JOB])).rejects.toThrow()
  await push(database, 'queue', [JOB])
})

test('so is one with a time-out that somebody has left', async () => {
  const { database, pool } = await openDatabase()
  const left = await pool.connect()
  await left.query('SET statement_timeout = 10')
  left.release()
  const slow = () => database.query('SELECT pg_sleep(0.1)')
  await expect(slow()).rejects.toMatchObject({ code: '57014' })
  await slow()
})

test.each(['SET default_transaction_read_only = on', 'SET ROLE pg_monitor'])(
  'so is one in which a transaction of ours is refused after %s',
  async (statement) => {
    const { database, pool } = await openDatabase()
    await database.run('create_queue', ['queue', 1])
    const left = await pool.connect()
    await left.query(statement)
    left.release()
    const pushed = () => database.transaction((tx) => push(database, 'queue', [JOB], tx))
    await expect(pushed()).rejects.toThrow()
    await pushed()
  },
)

test('a connection that breaks under a statement is not used again', async () => {
  const { database, opened } = await openDatabase()
  await expect(database.query('SELECT pg_terminate_backend(pg_backend_pid())')).rejects.toMatchObject({
    code: 'LOCKSTEP_CONNECTION',
  })
  expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
  expect(opened()).toBe(2)
})

test('nor is one whose statement is not answered in time', async () => {
  const { pool, opened } = await openDatabase()
  const hasty = new Database(pool, 'lockstep', 50)
  await expect(hasty.query('SELECT pg_sleep(1)')).rejects.toThrow('Query read timeout')
  expect(await hasty.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
  expect(opened()).toBe(2)
})

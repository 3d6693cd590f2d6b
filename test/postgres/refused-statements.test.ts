import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { Database } from '../../src/postgres/database.ts'
import { createMigrated } from '../support/database.ts'

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

test.each([
  ['sent as they are', (database: Database) => database.query('SELECT 1 / $1::integer', [0])],
  ['prepared', (database: Database) => database.alone('SELECT 1 / $1::integer', [0])],
  ['refused by a function', (database: Database) => database.run('enqueue', ['nowhere', 'a'])],
])('statements that the server refuses cost no connection: %s', async (_, run) => {
  const { database, opened } = await openDatabase()
  for (let n = 0; n < 10; n += 1) {
    const all = await Promise.allSettled(Array.from({ length: 6 }, () => run(database)))
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set(['rejected']))
  }
  expect(opened()).toBeLessThanOrEqual(3)
  expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
})

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

import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Database } from '../../src/postgres/database.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

let place: TestDatabase
let pool: pg.Pool
let database: Database

beforeAll(async () => {
  place = await createDatabase()
  // One session, so that a test finds what the one before prepared.
  pool = new pg.Pool({ connectionString: place.connectionString, max: 1 })
  await pool.query('CREATE FUNCTION answer(_a integer) RETURNS integer LANGUAGE sql RETURN _a')
})
afterAll(async () => {
  await pool?.end()
  await place?.drop()
})

const names = async () => (await pool.query('SELECT name FROM pg_prepared_statements')).rows
const call = (a: number) => database.call<{ answer: unknown }>('answer', [a])

test('a call of ours is parsed once a session', async () => {
  database = new Database(pool, 'public')
  expect([await call(1), await call(2)]).toEqual([[{ answer: 1 }], [{ answer: 2 }]])
  expect(await names()).toEqual([{ name: expect.stringMatching(/^lockstep_[0-9a-f]{32}$/) }])
})

test('on a session that doesn’t know it, as behind a pooler, it is sent without a name from then on', async () => {
  database = new Database(pool, 'public')
  await call(1)
  await pool.query('DEALLOCATE ALL')
  expect(await call(2)).toEqual([{ answer: 2 }])
  expect(await call(3)).toEqual([{ answer: 3 }])
  expect(await names()).toEqual([])
})

test('on a session that knows it from somebody else, too', async () => {
  database = new Database(pool, 'public')
  await call(1)
  const [{ name }] = await names()
  const stranger = new pg.Pool({ connectionString: place.connectionString, max: 1 })
  await stranger.query(`PREPARE "${name}" (integer) AS SELECT 0`)
  database = new Database(stranger, 'public')
  expect(await call(2)).toEqual([{ answer: 2 }])
  await stranger.end()
})

test('a function that a migration has changed is called anew', async () => {
  await pool.query('DEALLOCATE ALL')
  pool = await anew()
  database = new Database(pool, 'public')
  await call(1)
  await pool.query('DROP FUNCTION answer')
  await pool.query('CREATE FUNCTION answer(_a integer) RETURNS text LANGUAGE sql RETURN _a')
  expect(await call(2)).toEqual([{ answer: '2' }])
})

async function anew(): Promise<pg.Pool> {
  await pool.end()
  return new pg.Pool({ connectionString: place.connectionString, max: 1 })
}

import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { silentLogger } from '../../src/logger.ts'
import { newClient } from '../../src/postgres/client.ts'
import { createPool } from '../../src/postgres/pool.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { Network } from '../support/network.ts'

const MOST = 2

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database?.drop())

/** A pool whose clients take as long to create as the server takes to answer, and how many it has created. */
function open() {
  const state = { created: 0, failure: undefined as Error | undefined }
  const { connectionString } = database
  const create = async (options: pg.ClientConfig) => {
    const before = new pg.Client(connectionString)
    await before.connect()
    await before.end()
    if (state.failure) throw state.failure
    state.created += 1
    return new pg.Client({ ...options, connectionString })
  }
  const pool = createPool({ create, max: MOST, connectionTimeoutMillis: 10_000 }, silentLogger)
  return { pool, state }
}

test('a pool whose clients are created creates no more than it may have', async () => {
  const { pool, state } = open()
  const answers = await Promise.all(Array.from({ length: 20 }, () => pool.query('SELECT 1 AS one')))
  expect(answers.map(({ rows }) => rows[0].one)).toEqual(Array(20).fill(1))
  expect(state.created).toBe(MOST)
  await pool.end()
})

test('calls of one that can’t create any are told why, and it creates them for later ones', async () => {
  const { pool, state } = open()
  state.failure = new Error('no token')
  const calls = Array.from({ length: 5 }, () => pool.query('SELECT 1'))
  for (const call of calls) call.catch(() => {})
  for (const call of calls) await expect(call).rejects.toMatchObject({ code: 'LOCKSTEP_CONNECTION' })
  expect(pool.totalCount).toBe(0)
  state.failure = undefined
  expect((await pool.query('SELECT 1')).rowCount).toBe(1)
  await pool.end()
})

test('one that ends while it creates a client waits for that, and leaves none open', async () => {
  const { pool, state } = open()
  const call = pool.query('SELECT 1')
  await pool.end()
  expect((await call).rowCount).toBe(1)
  expect(state.created).toBe(1)
  expect(pool.totalCount).toBe(0)
})

test('a call on a created client whose connection goes silent ends, even if its options were not passed on', async () => {
  const network = await Network.to(database.connectionString)
  const create = () => new pg.Client(network.connectionString)
  const client = await newClient({ create, query_timeout: 200 })
  client.on('error', () => {})
  await client.connect()
  network.silence()
  await expect(client.query('SELECT 1')).rejects.toThrow('timeout')
  network.close()
})

import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { createPool } from '../../src/postgres/pool.ts'
import { Logins } from '../security/logins.ts'
import { until } from '../support/store-environment.ts'

/** How many sessions the role may have. */
const SESSIONS = 2
const MOST = 5

const logger = { debug() {}, info() {}, warn() {}, error() {} }

let logins: Logins
let pool: pg.Pool
/** How often the pool has asked the server for a session. */
let asked: number

beforeAll(async () => {
  logins = await Logins.open()
  await logins.create('crowded', `CONNECTION LIMIT ${SESSIONS}`)
})
afterAll(() => logins?.close())
beforeEach(() => {
  asked = 0
  pool = createPool({ connectionString: logins.url('crowded'), max: MOST }, logger)
  const { Client } = pool as unknown as { Client: new (config: pg.ClientConfig) => pg.Client }
  Object.assign(pool, {
    Client: class extends Client {
      constructor(config: pg.ClientConfig) {
        super(config)
        asked += 1
      }
    },
  })
})
afterEach(async () => {
  await pool.end()
  // The server may take a moment to end the sessions.
  await until(async () =>
    expect(
      await logins.asAdmin('SELECT FROM pg_stat_activity WHERE usename = $1', [logins.role('crowded')]),
    ).toEqual([]),
  )
})

const pause = (ms: number) => pool.query(`SELECT pg_sleep(${ms / 1000})`)

test('calls beyond the sessions that a role may have wait for those that there are', async () => {
  await Promise.all([pause(50), pause(50)])
  const calls = Array.from({ length: 40 }, () => pause(10))
  expect(await Promise.all(calls)).toHaveLength(40)
  // When the pool learns of the first refusal, it has asked for one more.
  expect(asked).toBeLessThanOrEqual(MOST + 1)
  expect(pool.totalCount).toBe(SESSIONS)
})

test('so they do where the pool has opened none yet', async () => {
  const calls = Array.from({ length: 40 }, () => pause(10))
  expect(await Promise.all(calls)).toHaveLength(40)
  expect(asked).toBeLessThanOrEqual(MOST + 1)
})

test('they get more sessions as soon as the role may have them, though all that there are stay in use', async () => {
  const held = await Promise.all([pool.connect(), pool.connect()])
  const waiting = pool.connect()
  await until(() => expect(pool.waitingCount).toBe(1))
  await logins.asAdmin(`ALTER ROLE "${logins.role('crowded')}" CONNECTION LIMIT ${SESSIONS + 1}`)
  const third = await waiting
  await logins.asAdmin(`ALTER ROLE "${logins.role('crowded')}" CONNECTION LIMIT ${SESSIONS}`)
  for (const client of [...held, third]) client.release()
  expect(asked).toBeLessThanOrEqual(5)
})

test('a pool that has none at all is refused at once', async () => {
  await logins.asAdmin(`ALTER ROLE "${logins.role('crowded')}" CONNECTION LIMIT 0`)
  await expect(pool.connect()).rejects.toMatchObject({ code: '53300' })
  const told = new Promise((resolve) => pool.connect((error) => resolve(error)))
  expect(await told).toMatchObject({ code: '53300' })
  await logins.asAdmin(`ALTER ROLE "${logins.role('crowded')}" CONNECTION LIMIT ${SESSIONS}`)
})

test('a session that is still being closed, as on a silent connection, is none to wait for', async () => {
  const client = await pool.connect()
  const close = client.end.bind(client)
  Object.assign(client, { end: () => {} })
  client.release(true)
  await logins.asAdmin(`ALTER ROLE "${logins.role('crowded')}" CONNECTION LIMIT 0`)
  await expect(pool.connect()).rejects.toMatchObject({ code: '53300' })
  expect(asked).toBe(2)
  await logins.asAdmin(`ALTER ROLE "${logins.role('crowded')}" CONNECTION LIMIT ${SESSIONS}`)
  await close()
})

test('calls that get none for two seconds are refused: they may hold what they wait for', async () => {
  const held = await Promise.all([pool.connect(), pool.connect()])
  const refused = expect(pool.connect()).rejects.toMatchObject({ code: '53300' })
  await until(() => expect(pool.waitingCount).toBe(1))
  // The pool is restrained already.
  await sleep(500)
  const startedAt = performance.now()
  await Promise.all([refused, expect(pool.connect()).rejects.toMatchObject({ code: '53300' })])
  expect(performance.now() - startedAt).toBeLessThan(5_000)
  // One refusal for the call, and one a second.
  expect(asked).toBeLessThanOrEqual(SESSIONS + 4)
  for (const client of held) client.release()
  expect((await pause(1)).rowCount).toBe(1)
})

test('one that is refused again, since a session has ended, waits for those that are left', async () => {
  const [first, second] = await Promise.all([pool.connect(), pool.connect()])
  const waiting = [pool.connect(), pool.connect(), pool.connect()]
  await until(() => expect(pool.waitingCount).toBe(waiting.length))
  await logins.asAdmin(`ALTER ROLE "${logins.role('crowded')}" CONNECTION LIMIT 1`)
  first.release(true)
  await sleep(300)
  second.release()
  await Promise.all(waiting.map(async (client) => (await client).release()))
  await logins.asAdmin(`ALTER ROLE "${logins.role('crowded')}" CONNECTION LIMIT ${SESSIONS}`)
})

test('a pool that has all the sessions that it may have asks for no more, however many wait', {
  tags: 'slow',
}, async () => {
  await logins.asAdmin(`ALTER ROLE "${logins.role('crowded')}" CONNECTION LIMIT ${MOST - 1}`)
  const held = await Promise.all(Array.from({ length: MOST - 1 }, () => pool.connect()))
  const last = pool.connect()
  await until(() => expect(pool.waitingCount).toBe(1))
  await logins.asAdmin(`ALTER ROLE "${logins.role('crowded')}" CONNECTION LIMIT ${MOST}`)
  held.push(await last)
  const waiting = Array.from({ length: 4 }, () => pool.connect())
  await sleep(3_500)
  expect(pool.waitingCount).toBe(waiting.length)
  for (const client of held.splice(0, 2)) client.release()
  for (const client of await Promise.all(waiting.slice(0, 2))) client.release()
  for (const client of held) client.release()
  for (const client of await Promise.all(waiting.slice(2))) client.release()
  await logins.asAdmin(`ALTER ROLE "${logins.role('crowded')}" CONNECTION LIMIT ${SESSIONS}`)
})

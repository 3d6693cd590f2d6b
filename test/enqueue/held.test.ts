import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { Lockstep, servedBy } from '../../src/lockstep.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

/** Connections of the pool, and how many of them wait at most. */
const [CONNECTIONS, MOST_WAITING] = [20, 4]

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

/** What gateways push with, on a pool of its own. */
function gateway(name: string) {
  const pool = new pg.Pool({
    connectionString: env.connectionString,
    application_name: name,
    max: CONNECTIONS,
  })
  onTestFinished(() => pool.end())
  return servedBy(new Lockstep({ pool }))
}

/** How many sessions of this name wait for a lock. */
async function waiting(name: string): Promise<number> {
  const rows = await env.query(
    `SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`,
    [name],
  )
  return rows.length
}

const ids = Array.from({ length: 40 }, (_, index) => `held-${index}`)
const digest = Buffer.from('')

test('P7: however many pushes wait for open transactions, few connections do, and other pushes go on', async () => {
  const testQueue = await env.queue()
  const { queue } = testQueue
  const producer = await env.transaction()
  onTestFinished(() => env.endSessions())
  await testQueue.pushIn(producer, ...ids.map((id) => ({ id })))
  const { enqueueInTime, enqueueForResultInTime, enqueueOnce } = gateway('held')
  await enqueueInTime(queue, [{ id: 'known' }])

  const held = ids.flatMap((id, at): Promise<unknown>[] => [
    ...[1, 2, 3].map((payload) => enqueueInTime(queue, [{ id, payload }])),
    enqueueInTime(queue, [{ id, payload: 4 }, { id: `other-${at}` }]),
    enqueueForResultInTime(queue, { id, payload: 5 }),
    enqueueOnce(queue, [{ id, payload: 6 }], { holder: '', key: id, digest }),
  ])
  let answered = 0
  for (const one of held)
    void one.then(
      () => answered++,
      () => answered++,
    )
  for (let free = 0; free < 20; free += 1) await enqueueInTime(queue, [{ id: `free-${free}` }])
  const seen: number[] = []
  while (seen.length < 20) seen.push(await waiting('held'))
  expect(answered).toBe(0)
  expect(Math.max(...seen)).toBeGreaterThan(0)
  expect(Math.max(...seen)).toBeLessThanOrEqual(MOST_WAITING)

  await producer.query('COMMIT')
  await Promise.all(held)
  const rows = await env.query<{ id: string; payloads: number }>(
    `SELECT job_id AS id, count(*) AS payloads FROM lockstep.payloads WHERE job_id LIKE 'held-%' GROUP BY 1`,
  )
  // The first one is in the job's own row.
  expect(rows.map(({ payloads }) => payloads)).toEqual(ids.map(() => 6))
})

test('P7: pushes of one id that an open transaction holds wait together, and then all are stored', async () => {
  const testQueue = await env.queue()
  const producer = await env.transaction()
  onTestFinished(() => env.endSessions())
  await testQueue.pushIn(producer, { id: 'a' })
  const { enqueueInTime } = gateway('one id')
  const held = Array.from({ length: 100 }, (_, payload) =>
    enqueueInTime(testQueue.queue, [{ id: 'a', payload }]),
  )
  await enqueueInTime(testQueue.queue, [{ id: 'free' }])
  const seen: number[] = []
  while (seen.length < 20) seen.push(await waiting('one id'))
  expect(Math.max(...seen)).toBe(1)
  await producer.query('COMMIT')
  await Promise.all(held)
  expect(await testQueue.countPayloads()).toBe(102)
})

test('P7: pushes with one key in two processes wait five seconds each, for key and id together', {
  tags: 'slow',
  timeout: 30_000,
}, async () => {
  const testQueue = await env.queue()
  const producer = await env.transaction()
  onTestFinished(() => env.endSessions())
  await testQueue.pushIn(producer, { id: 'a' })
  const key = { holder: '', key: 'both', digest }
  const both = ['one', 'other'].map((name) =>
    gateway(name).enqueueOnce(testQueue.queue, [{ id: 'a', payload: 1 }], key),
  )
  const refused = Promise.allSettled(both)
  const clock = await env.transaction("BEGIN; SET LOCAL lock_timeout = '8s'")
  const late = testQueue.pushIn(clock, { id: 'a' }).catch(() => 'the clock')
  expect(await Promise.race([refused, late])).toMatchObject([
    { reason: { code: expect.stringMatching(/^LOCKSTEP_(LOCKED|KEY_IN_USE)$/) } },
    { reason: { code: expect.stringMatching(/^LOCKSTEP_(LOCKED|KEY_IN_USE)$/) } },
  ])
  await late
})

test('P7: a push in time tells that the transaction was open for five seconds', {
  tags: 'slow',
}, async () => {
  const testQueue = await env.queue()
  const producer = await env.transaction()
  onTestFinished(() => env.endSessions())
  await testQueue.pushIn(producer, ...ids.map((id) => ({ id })))
  const { enqueueInTime } = gateway('in time')
  const held = ids.flatMap((id) =>
    [1, 2, 3].map((payload) => enqueueInTime(testQueue.queue, [{ id, payload }])),
  )
  const refused = Promise.allSettled(held)
  const clock = await env.transaction("BEGIN; SET LOCAL lock_timeout = '7s'")
  const late = testQueue.pushIn(clock, { id: ids[0]! }).catch(() => 'the clock')
  const first = await Promise.race([refused, late])
  expect(first).toHaveLength(held.length)
  for (const one of first as PromiseSettledResult<number>[])
    expect(one).toMatchObject({ reason: { code: 'LOCKSTEP_LOCKED' } })
  expect(await testQueue.countJobs()).toBe(0)
  await late
})

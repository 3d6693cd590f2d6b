import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type ExpiredRemoved, type ExpiryCursor, removeExpired } from '../../src/store/expiry.ts'
import { openStore, type StoreEnvironment, shown, type TestQueue } from '../support/store-environment.ts'

let env: StoreEnvironment
let testQueue: TestQueue
const long = Date.now() + 3_600_000
const far = Date.now() + 30 * 24 * 3_600_000

beforeAll(async () => {
  env = await openStore()
})
beforeEach(async () => {
  testQueue = await env.queue()
})
afterEach(() => env.endSessions())
afterAll(() => env?.close())

/** What is removed of the queue of the test. */
async function sweep(cursor?: ExpiryCursor, most = 1_000): Promise<ExpiredRemoved | undefined> {
  const all = await removeExpired(env.database, cursor ? [cursor] : [], most)
  return all.find(({ queueId }) => queueId === testQueue.queueId)
}

const rows = async (table: string, id: string) => {
  const column = table === 'jobs' ? 'id' : 'job_id'
  return env.query(
    `SELECT payload, expires_in FROM lockstep.${table} WHERE queue_id = $1 AND ${column} = $2`,
    [testQueue.queueId, id],
  )
}

describe('R17 a sweep', () => {
  test('removes payloads of jobs that wait, and jobs of which nothing is left', async () => {
    await testQueue.push({ id: 'carries', payload: 1, expiresIn: long })
    await testQueue.push(
      { id: 'both', payload: 1, expiresIn: long },
      { id: 'both', payload: 2, expiresIn: long },
    )
    await testQueue.push({ id: 'apart', payload: 1 }, { id: 'apart', payload: 2, expiresIn: long })
    await testQueue.push(
      { id: 'row', payload: 1, expiresIn: long, headers: { a: 1 } },
      { id: 'row', payload: 2 },
    )
    await testQueue.push({ id: 'alive', payload: 1, expiresIn: long }, { id: 'ever', payload: 1 })
    await testQueue.push(
      { id: 'one', payload: 1, expiresIn: long },
      { id: 'one', payload: 2, expiresIn: long },
    )
    for (const id of ['carries', 'both', 'apart', 'row']) await testQueue.letExpire(id)
    await testQueue.letExpire('one', 1)

    expect(await sweep()).toMatchObject({ queue: testQueue.queue.name, payloads: 6, jobs: 2, isMore: false })
    for (const id of ['carries', 'both']) expect(await testQueue.findJob(id)).toBeUndefined()
    expect(await testQueue.set('apart')).toEqual([expect.stringMatching(/^1\[/)])
    expect(await rows('jobs', 'row')).toEqual([{ payload: null, expires_in: null }])
    expect(await rows('payloads', 'row')).toMatchObject([{ payload: 2 }])
    expect(await testQueue.set('one')).toEqual([expect.stringMatching(/^2\[/)])
    expect(await testQueue.countPayloads()).toBe(5)
    expect(await sweep()).toBeUndefined()

    const claimer = await testQueue.claimer()
    const { rounds } = await claimer.claim({ batchSize: 10 })
    expect(rounds.map(({ id, expired }) => [id, expired])).toEqual(
      expect.arrayContaining([
        ['row', 0],
        ['apart', 0],
      ]),
    )
    expect(shown(rounds.filter(({ id }) => id === 'row'))[0]).toMatch(/^row: 2\[[\d.]+\]$/)
    await claimer.complete(...rounds)
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('comes to paused queues, and to jobs that are due far in the future', async () => {
    await testQueue.push({ id: 'far', performIn: far, expiresIn: far + 1 })
    await testQueue.letExpire('far')
    await env.lockstep.pause(testQueue.queue)
    expect(await sweep()).toMatchObject({ payloads: 1, jobs: 1 })
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('P3 leaves alone what is in work, with what was pushed meanwhile', async () => {
    await testQueue.push({ id: 'held', payload: 1, expiresIn: long })
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    await testQueue.push({ id: 'held', payload: 2, expiresIn: long }, { id: 'held', payload: 3 })
    await testQueue.letExpire('held')
    expect(await sweep()).toMatchObject({ payloads: 0, jobs: 0 })
    await claimer.fail([round])
    expect(await sweep()).toMatchObject({ payloads: 2, jobs: 0 })
    expect(await testQueue.set('held')).toEqual([expect.stringMatching(/^3\[/)])
  })

  test.each([true, false])(
    'P3 skips a job that an open transaction pushes into, which may prolong it: carried %s',
    async (isCarried) => {
      const id = `open ${isCarried}`
      if (!isCarried) await testQueue.push({ id, payload: 'first', score: 0 })
      await testQueue.push({ id, payload: 'v', score: 1, expiresIn: long })
      await testQueue.letExpire(id)
      const producer = await env.transaction()
      await testQueue.pushIn(producer, { id, payload: 'v', score: 2, expiresIn: long })
      expect(await sweep()).toMatchObject({ payloads: 0, jobs: 0 })
      await producer.query('COMMIT')
      await sweep()
      expect((await testQueue.set(id)).at(-1)).toBe('v[2]')
      const claimer = await testQueue.claimer()
      expect((await claimer.take()).payloads.at(-1)).toBe('v')
    },
  )

  test('goes on from a cursor, which passes what it has skipped, and finds that from the beginning', async () => {
    await testQueue.push({ id: 'a', expiresIn: long }, { id: 'b', expiresIn: long })
    await testQueue.letExpire('a')
    await testQueue.letExpire('b')
    const producer = await env.transaction()
    await testQueue.pushIn(producer, { id: 'a', payload: 'other' })
    const first = await sweep()
    expect(first).toMatchObject({ payloads: 1, jobs: 1 })
    await producer.query('ROLLBACK')
    expect(await sweep(first)).toBeUndefined()
    expect(await sweep()).toMatchObject({ payloads: 1, jobs: 1 })
  })

  test('removes no more than it is told at once, of however many that expire at the same instant', async () => {
    const jobs = ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id, expiresIn: long }))
    await testQueue.push(...jobs)
    for (let payload = 0; payload < 5; payload += 1)
      await testQueue.push({ id: 'c', payload, expiresIn: long })
    await env.query(`UPDATE lockstep.jobs SET expires_in = now() - interval '1 hour' WHERE queue_id = $1`, [
      testQueue.queueId,
    ])
    await env.query(
      `UPDATE lockstep.payloads SET expires_in = (SELECT max(expires_in) FROM lockstep.jobs WHERE queue_id = $1) WHERE queue_id = $1`,
      [testQueue.queueId],
    )
    const steps: number[] = []
    let cursor: ExpiredRemoved | undefined
    do {
      cursor = await sweep(cursor, 3)
      if (cursor) steps.push(cursor.payloads)
    } while (cursor?.isMore)
    // The last job of a full chunk is left to the next one, unless it fills all of it.
    expect(Math.max(...steps)).toBeLessThanOrEqual(3)
    expect(steps.reduce((sum, step) => sum + step)).toBe(10)
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('passes a job that fills a chunk if it may not remove anything of it', async () => {
    await testQueue.push({ id: 'a', payload: 0 })
    const claimer = await testQueue.claimer()
    await claimer.take()
    for (let payload = 1; payload < 5; payload += 1)
      await testQueue.push({ id: 'a', payload, expiresIn: long })
    await testQueue.push({ id: 'b', expiresIn: long })
    for (const table of ['jobs', 'payloads'])
      await env.query(
        `UPDATE lockstep.${table} SET expires_in = '2020-01-01' WHERE queue_id = $1 AND expires_in IS NOT NULL`,
        [testQueue.queueId],
      )
    const first = await sweep(undefined, 3)
    expect(first).toMatchObject({ payloads: 0, isMore: true })
    expect(await sweep(first, 3)).toMatchObject({ payloads: 1, jobs: 1, isMore: false })
  })

  test('of one queue leaves the rest of its work to the next call, and all queues get theirs', async () => {
    const other = await env.queue()
    for (const one of [testQueue, other]) {
      await one.push(
        ...Array.from({ length: 5 }, (_, index) => ({ id: `${index}`, expiresIn: long + index })),
      )
      for (let index = 0; index < 5; index += 1) await one.letExpire(`${index}`)
    }
    const cursors = new Map<number, ExpiredRemoved>()
    let isMore = true
    while (isMore) {
      const removed = await removeExpired(env.database, [...cursors.values()], 3)
      for (const one of removed) cursors.set(one.queueId, one)
      isMore = removed.some((one) => one.isMore)
    }
    expect([await testQueue.countJobs(), await other.countJobs()]).toEqual([0, 0])
  })

  test('two at once remove everything once', async () => {
    const ids = Array.from({ length: 60 }, (_, index) => `${index}`)
    await testQueue.push(...ids.map((id) => ({ id, expiresIn: long })))
    for (const id of ids) await testQueue.letExpire(id)
    const all = await Promise.all([sweep(), sweep(), sweep()])
    expect(all.reduce((sum, one) => sum + (one?.payloads ?? 0), 0)).toBe(60)
    expect(await testQueue.countJobs()).toBe(0)
  })
})

test('jobs without expiry are claimed and fail with HOT updates, and none of their rows is in an index of what expires', async () => {
  await testQueue.push(...Array.from({ length: 20 }, (_, index) => ({ id: `${index}`, payload: index })))
  await testQueue.push({ id: 'expires', expiresIn: long })
  const session = await env.transaction()
  const updates = async () => {
    const { rows } = await session.query(
      `SELECT sum(pg_stat_get_xact_tuples_updated(c.oid))::int AS all, sum(pg_stat_get_xact_tuples_hot_updated(c.oid))::int AS hot
       FROM pg_class c WHERE c.relname ~ '^jobs(_\\w+)?$' AND c.relkind = 'r'`,
    )
    return rows[0]
  }
  const claimer = (await testQueue.claimer()).on(session)
  const { rounds } = await claimer.claim({ batchSize: 50 })
  expect(rounds).toHaveLength(21)
  expect(await updates()).toEqual({ all: 21, hot: 21 })
  await claimer.release(...rounds)
  expect(await updates()).toEqual({ all: 42, hot: 42 })
})

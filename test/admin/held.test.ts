import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Progress, Progression } from '../../src/index.ts'
import { openStore, type StoreEnvironment, type TestQueue, until } from '../support/store-environment.ts'
import { bury } from './bury.ts'

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
})
beforeEach(async () => {
  testQueue = await env.queue()
})
afterEach(() => env.endSessions())
afterAll(() => env?.close())

const IDS = ['a', 'b', 'c', 'd', 'e']

async function holding(...ids: string[]) {
  const producer = await env.transaction()
  await testQueue.pushIn(producer, ...ids.map((id) => ({ id, payload: 'held' })))
  return producer
}

/** Sessions of this database that wait for a lock. */
async function waiting(): Promise<number> {
  const rows = await env.query(
    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
  )
  return rows.length
}

interface Act {
  readonly name: string
  prepare(): Promise<unknown>
  begin(options?: { signal: AbortSignal }): Progression
  /** How many it was not done to. */
  left(): Promise<number>
}

const ACTS: readonly Act[] = [
  {
    name: 'requeue',
    prepare: () => bury(testQueue, ...IDS.map((id) => ({ id, payload: 1 }))),
    begin: (options) => env.lockstep.requeue(testQueue.queue, {}, options),
    left: async () => (await env.lockstep.findDead(testQueue.queue)).items.length,
  },
  {
    name: 'delete',
    prepare: () => testQueue.push(...IDS.map((id) => ({ id, payload: 1 }))),
    begin: (options) => env.lockstep.delete(testQueue.queue, {}, options),
    left: () => testQueue.countJobs(),
  },
]

describe.each(ACTS)('P7 $name, where an open transaction holds an id', ({ prepare, begin, left }) => {
  test('does the rest at once, and then that when it is free', async () => {
    await prepare()
    const producer = await holding('b')
    const seen: Progress[] = []
    const acting = (async () => {
      for await (const progress of begin()) seen.push(progress)
    })()
    await until(() => expect(seen.at(-1)).toEqual({ done: 4, total: 5 }))
    expect(await left()).toBe(1)
    await producer.query('COMMIT')
    await acting
    expect(seen.at(-1)).toEqual({ done: 5, total: 5 })
    expect(await left()).toBe(0)
  })

  test('gives up after five seconds, and no statement goes on', { tags: 'slow' }, async () => {
    await prepare()
    const producer = await holding('b', 'd')
    const seen: Progress[] = []
    const acting = (async () => {
      for await (const progress of begin()) seen.push(progress)
    })()
    const clock = await env.transaction("BEGIN; SET LOCAL lock_timeout = '8s'")
    const late = testQueue.pushIn(clock, { id: 'b', payload: 'late' }).then(
      () => 'late',
      () => 'late',
    )
    const first = await Promise.race([acting.catch((error: unknown) => error), late])
    expect(first).toMatchObject({
      code: 'LOCKSTEP_LOCKED',
      message: expect.stringContaining('hold 2 of what was asked for'),
    })
    expect(seen.at(-1)).toEqual({ done: 3, total: 5 })
    expect(await waiting()).toBe(1)
    await late
    await producer.query('COMMIT')
    expect(await left()).toBe(2)
  })

  test('ends with its signal, and does nothing any more', async () => {
    await prepare()
    const producer = await holding('b')
    const leaving = new AbortController()
    const acting = begin({ signal: leaving.signal }).then(
      () => 'done',
      (error: unknown) => (error as Error).message,
    )
    await until(async () => expect(await left()).toBe(1))
    leaving.abort(new Error('left'))
    expect(await acting).toBe('left')
    await until(async () => expect(await waiting()).toBe(0))
    await producer.query('COMMIT')
    // Whoever came after it in the line is served.
    expect(await begin().then(({ done }) => done)).toBe(1)
  })

  test('takes few connections, however many call it', async () => {
    await prepare()
    const producer = await holding(...IDS)
    const all = Array.from({ length: 20 }, () => begin().then(({ done }) => done))
    // Once each has been tried.
    await until(async () => {
      const seen: number[] = []
      while (seen.length < 10) {
        await testQueue.push({ id: 'free', payload: 1 })
        seen.push(await waiting())
      }
      expect(Math.max(...seen)).toBe(4)
    })
    await producer.query('COMMIT')
    await Promise.all(all)
  })
})

test('R11 deleteDead looks at the filter again on a payload that it has waited for', async () => {
  await bury(testQueue, { id: 'a', payload: 1 }, { id: 'b', payload: 1 })
  const other = await env.transaction()
  await other.query('UPDATE lockstep.morgue SET score = 3 WHERE queue_id = $1 AND job_id = $2', [
    testQueue.queueId,
    'a',
  ])
  const deleting = env.lockstep
    .deleteDead(testQueue.queue, { score: { from: -1e15, to: 2e15 } })
    .then((last) => last)
  await until(async () => expect(await waiting()).toBe(1))
  await other.query('UPDATE lockstep.morgue SET score = 3e15 WHERE queue_id = $1 AND job_id = $2', [
    testQueue.queueId,
    'a',
  ])
  await other.query('COMMIT')
  expect(await deleting).toEqual({ done: 1, total: 2 })
})

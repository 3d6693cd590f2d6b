import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { describeError } from '../../src/errors.ts'
import { failure } from '../../src/worker/performing/ending.ts'
import {
  type Claimer,
  openStore,
  outcomes,
  type StoreEnvironment,
  type TestQueue,
} from '../support/store-environment.ts'

const PAST = 1_536_323_288_000
const FUTURE = 4_102_444_800_000

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

/** A queue whose retries are due at once. */
async function start(maxRetryCount: number, maxPayloads?: number): Promise<[TestQueue, Claimer]> {
  const testQueue = await env.queue({ maxRetryCount, maxPayloads, retryIn: () => 0 })
  return [testQueue, await testQueue.claimer()]
}

/** Takes the due job and fails it by its queue's policy; resolves to the payloads that the handler had got. */
async function failNext(testQueue: TestQueue, claimer: Claimer): Promise<string> {
  const round = await claimer.take()
  const { retryIn, error } = failure(testQueue.queue, round, `${round.payloads[0]} failed`, describeError)
  await claimer.fail([round], retryIn, error)
  return round.payloads.join('')
}

/** The payloads of every run until nothing is left. */
async function failToTheEnd(testQueue: TestQueue, claimer: Claimer): Promise<string[]> {
  const runs: string[] = []
  while ((await testQueue.countJobs()) > 0) {
    expect(runs.length).toBeLessThan(50)
    runs.push(await failNext(testQueue, claimer))
  }
  return runs
}

describe('R6 a failure', () => {
  test('counts up from −1 and waits retryIn seconds from now', async () => {
    const [testQueue, claimer] = await start(25)
    await testQueue.push({ id: 'a', payload: 'v', performIn: 1_000 })
    for (const retryCount of [0, 1, 2]) {
      const round = await claimer.take()
      expect(round.retryCount).toBe(retryCount - 1)
      await claimer.fail([round], 0, `error ${retryCount}`)
      expect(await testQueue.job('a')).toMatchObject({
        retry_count: retryCount,
        error: `error ${retryCount}`,
      })
    }
    const before = Date.now()
    const [exception] = await claimer.fail([await claimer.take()], 3_600.25)
    const { performIn } = await testQueue.job('a')
    expect(performIn - before).toBeGreaterThan(3_600_000)
    expect(performIn - before).toBeLessThan(3_630_000)
    expect(exception).toMatchObject({ id: 'a', outcome: 'again', shard: 0, lane: 0 })
    expect(exception!.performIn).toBeCloseTo(performIn * 1000, -3)
    expect((await claimer.claim()).rounds).toEqual([])
  })

  test('fails each id of a batch by itself, with its own error and time', async () => {
    const [testQueue, claimer] = await start(25)
    await testQueue.push({ id: 'a' }, { id: 'b' }, { id: 'c' })
    const { rounds } = await claimer.claim({ batchSize: 3 })
    const [a, b, c] = rounds
    expect(outcomes(await claimer.fail([c!], 50, 'not this one'))).toEqual(['c again'])
    expect(await claimer.complete(a!)).toEqual([])
    await claimer.fail([b!], null, 'dead')
    expect(await testQueue.findJob('a')).toBeUndefined()
    expect(await testQueue.findJob('b')).toBeUndefined()
    expect(await testQueue.job('c')).toMatchObject({ error: 'not this one', retry_count: 0 })
    expect(await testQueue.dead('b')).toMatchObject([{ payload: '', error: 'dead' }])
  })

  test('a success in between starts the count anew', async () => {
    const [testQueue, claimer] = await start(25)
    await testQueue.push({ id: 'a', payload: 1 })
    await failNext(testQueue, claimer)
    const round = await claimer.take()
    await testQueue.push({ id: 'a', payload: 2 })
    await claimer.complete(round)
    expect(await claimer.take()).toMatchObject({ retryCount: -1, error: null, payloads: [2] })
  })
})

test('a round that is not to fail waits with its number, its error and all payloads', async () => {
  const [testQueue, claimer] = await start(25)
  await testQueue.push({ id: 'a', payload: 'v', score: 1 })
  await claimer.fail([await claimer.take()], 0, 'the error')
  const round = await claimer.take()
  await testQueue.push({ id: 'a', payload: 'w', score: 2 })
  const before = Date.now()
  expect(outcomes(await claimer.fail([round], 3_600, null))).toEqual(['a again'])
  const job = await testQueue.job('a')
  expect(job).toMatchObject({ retry_count: 0, error: 'the error', claimed_by: null, nextPerformIn: null })
  expect(job.performIn - before).toBeGreaterThan(3_600_000)
  expect(await testQueue.set('a')).toEqual(['v[1]', 'w[2]'])
})

describe('R7 death', () => {
  test('a, b, c always failing with maxRetryCount 3 die one after the other, after 4, 4 and 4 runs', async () => {
    const [testQueue, claimer] = await start(3)
    await testQueue.push(
      ...['b', 'c', 'a'].map((payload) => ({ id: 'x', payload, score: payload.charCodeAt(0) })),
    )
    expect(await failToTheEnd(testQueue, claimer)).toEqual([
      ...Array(4).fill('abc'),
      ...Array(4).fill('bc'),
      ...Array(4).fill('c'),
    ])
    expect(await testQueue.dead('x')).toEqual([
      { payload: 'a', score: 97, error: 'a failed' },
      { payload: 'b', score: 98, error: 'b failed' },
      { payload: 'c', score: 99, error: 'c failed' },
    ])
    expect(await testQueue.countPayloads()).toBe(0)
  })

  test('with maxRetryCount 0 a payload runs once', async () => {
    const [testQueue, claimer] = await start(0)
    await testQueue.push({ id: 'x', payload: 'a', score: 1 }, { id: 'x', payload: 'b', score: 2 })
    expect(await failToTheEnd(testQueue, claimer)).toEqual(['ab', 'b'])
    expect(await testQueue.dead('x')).toHaveLength(2)
  })

  test('of equal scores the first pushed dies first', async () => {
    const [testQueue, claimer] = await start(0)
    await testQueue.push(...['z', 'y', 'x'].map((payload) => ({ id: 'x', payload, score: 1 })))
    expect(await failToTheEnd(testQueue, claimer)).toEqual(['zyx', 'yx', 'x'])
  })

  test('leaves the rest with a clean count, due now, together with what was pushed meanwhile', async () => {
    const [testQueue, claimer] = await start(0)
    await testQueue.push(
      { id: 'x', payload: 'a', score: 1, performIn: PAST },
      { id: 'x', payload: 'b', score: 2 },
    )
    const round = await claimer.take()
    await testQueue.push({ id: 'x', payload: 'c', score: 0, performIn: FUTURE })
    const before = Date.now() - 1_000
    const [exception] = await claimer.fail([round], null, 'boom')
    const job = await testQueue.job('x')
    expect(job).toMatchObject({
      retry_count: -1,
      error: 'boom',
      crashes: 0,
      claimed_by: null,
      nextPerformIn: null,
    })
    expect(job.performIn).toBeGreaterThan(before)
    expect(exception).toMatchObject({ id: 'x', outcome: 'again' })
    expect(exception!.performIn).toBeCloseTo(job.performIn * 1000, -3)
    expect(await testQueue.set('x')).toEqual(['c[0]', 'b[2]'])
    expect(await testQueue.dead('x')).toMatchObject([{ payload: 'a', error: 'boom' }])
  })

  test('R3 of the only payload leaves what was pushed meanwhile its own time', async () => {
    const [testQueue, claimer] = await start(0)
    await testQueue.push(
      { id: 'x', payload: 'a', score: 1, performIn: PAST },
      { id: 'y', payload: 'a', performIn: PAST },
    )
    const { rounds } = await claimer.claim({ batchSize: 2 })
    await testQueue.push(
      { id: 'x', payload: 'b', score: 2, performIn: FUTURE },
      { id: 'x', payload: 'c', score: 3, performIn: PAST },
      { id: 'y', payload: 'b', performIn: PAST },
    )
    const again = await claimer.fail(rounds, null, 'boom')
    expect(again.toSorted((a, b) => (a.id < b.id ? -1 : 1))).toMatchObject([
      { id: 'x', outcome: 'again', performIn: FUTURE * 1000 },
      { id: 'y', outcome: 'again', performIn: PAST * 1000 },
    ])
    const numbers = { nextPerformIn: null, retry_count: -1, crashes: 0, claimed_by: null, error: 'boom' }
    expect(await testQueue.job('x')).toMatchObject({ ...numbers, performIn: FUTURE })
    expect(await testQueue.job('y')).toMatchObject({ ...numbers, performIn: PAST })
    expect(await testQueue.set('x')).toEqual(['b[2]', 'c[3]'])
    expect((await claimer.claim({ batchSize: 2 })).rounds.map(({ id }) => id)).toEqual(['y'])
  })

  test('R9 of what maxPayloads took leaves what it did not take due now, and what was scheduled with it', async () => {
    const [testQueue, claimer] = await start(0, 1)
    await testQueue.push(
      { id: 'x', payload: 'a', score: 1, performIn: PAST },
      { id: 'x', payload: 'b', score: 2 },
    )
    const round = await claimer.take()
    await testQueue.push({ id: 'x', payload: 'c', score: 3, performIn: FUTURE })
    await claimer.fail([round], null)
    expect((await testQueue.job('x')).performIn).toBeLessThan(FUTURE)
    expect(await testQueue.set('x')).toEqual(['b[2]', 'c[3]'])
    expect((await claimer.take()).payloads).toEqual(['b'])
  })

  test('keeps the error until the next success: through a push, a release and a claim', async () => {
    const [testQueue, claimer] = await start(0)
    await testQueue.push({ id: 'x', payload: 'a', score: 1 }, { id: 'x', payload: 'b', score: 2 })
    await claimer.fail([await claimer.take()], null, 'boom')
    await testQueue.push({ id: 'x', payload: 'c', score: 3 })
    expect(await testQueue.job('x')).toMatchObject({ error: 'boom', retry_count: -1 })
    await claimer.release(await claimer.take())
    const round = await claimer.take()
    expect(round).toMatchObject({ error: 'boom', retryCount: -1, payloads: ['b', 'c'] })
    await testQueue.push({ id: 'x', payload: 'd', score: 4 })
    await claimer.complete(round)
    expect(await testQueue.job('x')).toMatchObject({ error: null })
  })

  test('P5 takes the lowest of the failed round: a lower one pushed meanwhile is not touched', async () => {
    const [testQueue, claimer] = await start(0)
    await testQueue.push({ id: 'x', payload: 'a', score: 5 })
    const round = await claimer.take()
    await testQueue.push({ id: 'x', payload: 'b', score: 1 })
    await claimer.fail([round], null)
    expect(await testQueue.set('x')).toEqual(['b[1]'])
    expect(await testQueue.dead('x')).toMatchObject([{ payload: 'a' }])
  })

  test('P5 leaves an equal payload that was pushed meanwhile', async () => {
    const [testQueue, claimer] = await start(0)
    await testQueue.push({ id: 'x', payload: 'a', score: 5 })
    const round = await claimer.take()
    await testQueue.push({ id: 'x', payload: 'a', score: 9 })
    expect(outcomes(await claimer.fail([round], null))).toEqual(['x again'])
    expect(await testQueue.set('x')).toEqual(['a[9]'])
    expect(await testQueue.dead('x')).toMatchObject([{ payload: 'a', score: 5 }])
  })

  test('takes equal payloads of earlier rounds along', async () => {
    const [testQueue, claimer] = await start(25)
    await testQueue.push({ id: 'x', payload: 'a', score: 5 })
    const round = await claimer.take()
    await testQueue.push({ id: 'x', payload: 'a', score: 3 })
    await claimer.fail([round])
    expect(await testQueue.countPayloads()).toBe(2)
    await claimer.fail([await claimer.take()], null)
    expect(await testQueue.countJobs()).toBe(0)
    expect(await testQueue.countPayloads()).toBe(0)
    expect(await testQueue.dead('x')).toMatchObject([{ payload: 'a', score: 3 }])
  })

  test('a payload that dies twice lies in the morgue once, with the newer error', async () => {
    const [testQueue, claimer] = await start(0)
    for (const [score, error] of [
      [1, 'first'],
      [2, 'second'],
    ] as const) {
      await testQueue.push({ id: 'x', payload: 'a', score })
      await claimer.fail([await claimer.take()], null, error)
    }
    expect(await testQueue.dead('x')).toEqual([{ payload: 'a', score: 1, error: 'second' }])
  })

  test('with maxPayloads the lowest of all dies, and what the round left behind is handed over', async () => {
    const [testQueue, claimer] = await start(1, 2)
    await testQueue.push(...['a', 'b', 'c'].map((payload, score) => ({ id: 'x', payload, score })))
    expect(await failToTheEnd(testQueue, claimer)).toEqual(['ab', 'ab', 'bc', 'bc', 'c', 'c'])
  })

  test('several deaths in one batch, some with and some without a rest', async () => {
    const [testQueue, claimer] = await start(0)
    await testQueue.push(
      ...['a', 'b', 'c'].flatMap((id) => [1, 2].map((score) => ({ id, payload: score, score }))),
    )
    await testQueue.push({ id: 'd', payload: 1 }, { id: 'e', payload: 1 })
    const { rounds } = await claimer.claim({ batchSize: 10 })
    expect(outcomes(await claimer.fail(rounds, null))).toEqual(['a again', 'b again', 'c again'])
    expect(await testQueue.countJobs()).toBe(3)
    expect(await testQueue.countPayloads()).toBe(3)
    for (const id of ['a', 'b', 'c', 'd', 'e'])
      expect(await testQueue.dead(id)).toMatchObject([{ payload: 1, error: 'failed' }])
  })
})

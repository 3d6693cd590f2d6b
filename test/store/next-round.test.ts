import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  type Claimer,
  openStore,
  outcomes,
  type StoreEnvironment,
  shown,
  type TestQueue,
} from '../support/store-environment.ts'

const PAST = 1_536_323_288_000
const FUTURE = 4_102_444_800_000

let env: StoreEnvironment
let testQueue: TestQueue
let claimer: Claimer

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue()
  claimer = await testQueue.claimer()
})

describe('R3 a push while the id is in work', () => {
  test('starts the next round: its own time, a clean count, the row’s lane', async () => {
    await testQueue.push({ id: 'a', payload: 'old', score: 1, lane: 2, performIn: PAST })
    const [failedRound] = (await claimer.claim({ lane: 2 })).rounds
    await claimer.fail([failedRound!])
    const [round] = (await claimer.claim({ lane: 2 })).rounds
    await testQueue.push({ id: 'a', payload: 'new', score: 2, lane: 5, performIn: FUTURE })
    expect(await testQueue.job('a')).toMatchObject({ retry_count: 0, nextPerformIn: FUTURE })

    expect(await claimer.complete(round!)).toMatchObject([
      { id: 'a', outcome: 'again', shard: 0, lane: 2, performIn: FUTURE * 1000 },
    ])
    expect(await testQueue.job('a')).toMatchObject({
      performIn: FUTURE,
      nextPerformIn: null,
      retry_count: -1,
      error: null,
      lane: 2,
      claimed_by: null,
    })
    expect(await testQueue.set('a')).toEqual(['new[2]'])
  })

  test('a second push does not move its time', async () => {
    await testQueue.push({ id: 'a', payload: 1, performIn: PAST })
    const round = await claimer.take()
    await testQueue.push({ id: 'a', payload: 2, performIn: FUTURE })
    await testQueue.push({ id: 'a', payload: 3, performIn: PAST })
    await testQueue.push({ id: 'a', payload: 4, performIn: FUTURE + 1_000 })
    expect(await testQueue.job('a')).toMatchObject({ performIn: PAST, nextPerformIn: FUTURE })

    await claimer.complete(round)
    expect(await testQueue.job('a')).toMatchObject({ performIn: FUTURE })
  })

  test('is out of the round in work, which ends as it began', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1 })
    const round = await claimer.take()
    expect(shown([round])).toEqual(['a: v[1]'])
    await testQueue.push({ id: 'a', payload: 'w', score: 0 })
    expect((await claimer.claim()).rounds).toEqual([])
    expect((await (await testQueue.claimer()).claim()).rounds).toEqual([])
  })

  test('merges with other pushes of the next round by R2', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1 })
    const round = await claimer.take()
    await testQueue.push({ id: 'a', payload: 'w', score: 10 })
    await testQueue.push({ id: 'a', payload: 'w', score: 3 }, { id: 'a', payload: 'u', score: 5 })
    await claimer.complete(round)
    expect(shown([await claimer.take()])).toEqual(['a: w[3] u[5]'])
  })
})

describe('P5 no push is swallowed', () => {
  test('a payload equal to the one in work is handed over in the next round', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1 })
    const first = await claimer.take()
    await testQueue.push({ id: 'a', payload: 'v', score: 9 })
    expect(outcomes(await claimer.complete(first))).toEqual(['a again'])

    const second = await claimer.take()
    expect(shown([second])).toEqual(['a: v[9]'])
    expect(await claimer.complete(second)).toEqual([])
    expect(await testQueue.countJobs()).toBe(0)
    expect(await testQueue.countPayloads()).toBe(0)
  })

  test('in a batch, the ids pushed anew go on and the others are gone', async () => {
    const ids = ['a', 'b', 'c', 'd']
    await testQueue.push(...ids.map((id) => ({ id, payload: 'v', score: 1 })))
    const { rounds } = await claimer.claim({ batchSize: 4 })
    await testQueue.push({ id: 'b', payload: 'v', score: 2 }, { id: 'd', payload: 'w', score: 3 })
    expect(outcomes(await claimer.complete(...rounds))).toEqual(['b again', 'd again'])

    const next = await claimer.claim({ batchSize: 4 })
    expect(shown(next.rounds)).toEqual(['b: v[2]', 'd: w[3]'])
    expect(await claimer.complete(...next.rounds)).toEqual([])
    expect(await testQueue.countJobs()).toBe(0)
    expect(await testQueue.countPayloads()).toBe(0)
  })

  test('round after round', async () => {
    await testQueue.push({ id: 'a', payload: 0, score: 0 })
    for (let n = 0; n < 5; n += 1) {
      const round = await claimer.take()
      expect(shown([round])).toEqual([`a: ${n}[${n}]`])
      await testQueue.push({ id: 'a', payload: n + 1, score: n + 1 })
      await claimer.complete(round)
    }
  })

  test('what is pushed after a completion is a new job', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1, lane: 0 })
    await claimer.complete(await claimer.take())
    await testQueue.push({ id: 'a', payload: 'v', score: 2, lane: 4, performIn: FUTURE })
    expect(await testQueue.job('a')).toMatchObject({
      retry_count: -1,
      claimed_by: null,
      lane: 4,
      performIn: FUTURE,
    })
    expect(await testQueue.set('a')).toEqual(['v[2]'])
  })
})

describe('R4 a failed round and what was pushed meanwhile', () => {
  test('unite by the smaller score; time, count and error are the failed job’s', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 5 }, { id: 'a', payload: 'w', score: 2 })
    const round = await claimer.take()
    await testQueue.push(
      { id: 'a', payload: 'v', score: 1, performIn: FUTURE },
      { id: 'a', payload: 'w', score: 7 },
      { id: 'a', payload: 'x', score: 3 },
    )
    const before = Date.now()
    expect(outcomes(await claimer.fail([round], 100, 'boom'))).toEqual(['a again'])
    const job = await testQueue.job('a')
    expect(job).toMatchObject({ retry_count: 0, error: 'boom', nextPerformIn: null, claimed_by: null })
    expect(job.performIn).toBeGreaterThan(before + 95_000)
    expect(job.performIn).toBeLessThan(before + 130_000)
    expect(await testQueue.set('a')).toEqual(['v[1]', 'w[2]', 'x[3]'])
  })

  test('are one round, whose completion leaves nothing behind', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 5 })
    for (let n = 0; n < 3; n += 1) {
      const round = await claimer.take()
      await testQueue.push({ id: 'a', payload: 'v', score: 4 - n }, { id: 'a', payload: n, score: 10 + n })
      await claimer.fail([round])
    }
    const round = await claimer.take()
    expect(shown([round])).toEqual(['a: v[2] 0[10] 1[11] 2[12]'])
    expect(round).toMatchObject({ retryCount: 2, error: 'failed' })
    await claimer.complete(round)
    expect(await testQueue.countJobs()).toBe(0)
    expect(await testQueue.countPayloads()).toBe(0)
  })

  test('pushed after the failure, they merge as into any waiting job', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 5 })
    await claimer.fail([await claimer.take()], 1_000)
    const { performIn } = await testQueue.job('a')
    await testQueue.push({ id: 'a', payload: 'v', score: 9 }, { id: 'a', payload: 'w', score: 1 })
    expect(await testQueue.set('a')).toEqual(['w[1]', 'v[5]'])
    expect(await testQueue.job('a')).toMatchObject({ performIn, retry_count: 0 })
  })
})

describe('R15 a released round', () => {
  test('waits with its numbers unchanged and what was pushed meanwhile', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 5, performIn: PAST })
    await claimer.fail([await claimer.take()])
    const { performIn } = await testQueue.job('a')
    const round = await claimer.take()
    await testQueue.push({ id: 'a', payload: 'w', score: 1, performIn: FUTURE })
    expect(outcomes(await claimer.release(round))).toEqual(['a again'])
    expect(await testQueue.job('a')).toMatchObject({
      performIn,
      nextPerformIn: null,
      retry_count: 0,
      error: 'failed',
      crashes: 0,
    })
    expect(shown([await claimer.take()])).toEqual(['a: w[1] v[5]'])
  })
})

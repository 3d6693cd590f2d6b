import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import type { Queue } from '../../src/queue.ts'
import type { LaneKey } from '../../src/store/claim.ts'
import type { Wish } from '../../src/store/exchange.ts'
import { Bell } from '../../src/worker/lifecycle/bell.ts'
import { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import { Batcher } from '../../src/worker/settling/batcher.ts'
import type { Travelling } from '../../src/worker/settling/piece.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

// Calls carry 400 outcomes each, and four are under way at most. So 21 calls bring 10,000 down to 1,600, and the next one
// leaves the 1,200 that the other three can take.
test.each([
  ['many outcomes are left: it waits until the other calls can take them', 10_000, 1, 21, true],
  ['few are left: it goes with the first call', 1_000, 1, 0, true],
  ['few with many payloads are left: it goes beside them', 20, 1_000, 0, false],
])('a claim, while %s', async (_, jobs, payloads, place, together) => {
  const { queue, queueId, processId, pieces } = await performed(jobs, payloads)
  const { batcher } = batcherThatStores()
  const calls = vi.spyOn(env.database, 'alone')
  for (const piece of pieces) batcher.settle(piece)
  const wish = wishFor(queue, { queueId, shard: 0, lane: 0 })
  const { rounds: later } = await batcher.claim(processId, wish, { jobs: 1, size: 0 })
  expect(later.map(({ id }) => id)).toEqual(['later'])
  const texts = calls.mock.calls.map(([text]) => text)
  const claiming = texts.findIndex((text) => text.includes('.claim('))
  expect(claiming).toBe(place)
  expect(texts[claiming]!.includes('.complete(')).toBe(together)
})

describe('while no call is under way', () => {
  test.each([
    ['fewer than 128 outcomes go together', 127, 1],
    ['two calls share 128 outcomes', 128, 2],
  ])('%s', async (_, jobs, count) => {
    const { pieces } = await performed(jobs, 1)
    const { batcher, stored } = batcherThatStores()
    const calls = vi.spyOn(env.database, 'alone')
    for (const piece of pieces) batcher.settle(piece)
    await vi.waitUntil(() => stored.length === pieces.length, { interval: 1, timeout: 10_000 })
    expect(calls).toHaveBeenCalledTimes(count)
  })

  test.each([
    ['claims that are likely to bring fewer than 128 jobs go together', 63, 1],
    ['two calls share claims that are likely to bring 128 jobs', 64, 2],
  ])('%s', async (_, likely, count) => {
    const { queue, queueId, processId } = await claimed(1, 1)
    const { batcher } = batcherThatStores()
    const calls = vi.spyOn(env.database, 'alone')
    const claims = [0, 1].map((lane) =>
      batcher.claim(processId, wishFor(queue, { queueId, shard: 0, lane }), { jobs: likely, size: 0 }),
    )
    const [first, second] = await Promise.all(claims)
    expect(first!.rounds.map(({ id }) => id)).toEqual(['later'])
    expect(second!.rounds).toEqual([])
    expect(calls).toHaveBeenCalledTimes(count)
  })
})

describe('beside a call that is under way', () => {
  test.each([
    ['few jobs wait until it ends, and go together', 63, 0, 1],
    ['few jobs wait for it no longer than 4 ms', 63, 4, 2],
    ['many jobs do not wait', 64, 0, 2],
  ])('%s', async (_, jobs, later, callsByThen) => {
    const { pieces } = await performed(jobs + 1, 1)
    const { batcher, stored } = batcherThatStores()
    const { calls, letGo } = holdFirstCall()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    for (const piece of pieces) {
      batcher.settle(piece)
      await turn()
    }
    vi.advanceTimersByTime(later)
    await turn()
    expect(calls).toHaveBeenCalledTimes(callsByThen)
    letGo()
    await vi.waitUntil(() => stored.length === pieces.length, { interval: 1, timeout: 10_000 })
    expect(calls).toHaveBeenCalledTimes(2)
  })

  test('that has become slow, no job waits', async () => {
    const { pieces } = await performed(2, 1)
    const { batcher, stored } = batcherThatStores()
    const { calls, letGo } = holdFirstCall()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    batcher.settle(pieces[0]!)
    await turn()
    vi.advanceTimersByTime(4)
    batcher.settle(pieces[1]!)
    await turn()
    expect(calls).toHaveBeenCalledTimes(2)
    letGo()
    await vi.waitUntil(() => stored.length === pieces.length, { interval: 1, timeout: 10_000 })
  })
})

/** For one job. */
function wishFor({ maxBytes }: Queue, key: LaneKey): Wish {
  return { key, cursor: { after: null, afterId: '' }, count: 1, maxBytes, maxPayloads: undefined }
}

/** A turn of the event loop. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
}

/** The first call reaches the server only when it is let go. */
function holdFirstCall() {
  const { alone } = env.database
  const held = new Bell()
  const calls = vi.spyOn(env.database, 'alone')
  calls.mockImplementationOnce(async (...call) => {
    await held.wait()
    return alone.apply(env.database, call) as never
  })
  return { calls, letGo: () => held.ring() }
}

function batcherThatStores() {
  const batcher = new Batcher(env.database)
  const stored: Travelling[] = []
  batcher.listener = {
    stored(pieces, leftovers) {
      expect(leftovers).toEqual([])
      stored.push(...pieces)
    },
    failed: (_, error) => expect.fail(String(error)),
  }
  return { batcher, stored }
}

/** So many completed jobs, with so many payloads each, and one job that waits. */
async function performed(jobs: number, payloads: number) {
  const { queue, queueId, rounds, processId } = await claimed(jobs, payloads)
  const served = new ServedQueue(queue, queueId)
  const claimant = { served, processId, release() {}, shard: 0, slot: 0, startedAt: 0 }
  const piece = { claimant, queueId, kind: 'complete', failures: [], uncertain: false, alone: false } as const
  const pieces = rounds.map(
    (round) => ({ ...piece, rounds: [round], skips: 0, waits: 0, answered: undefined }) as Travelling,
  )
  return { queue, queueId, processId, pieces }
}

/** So many claimed jobs, with so many payloads each, and one that waits. */
async function claimed(jobs: number, payloads: number) {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  const all = Array.from({ length: jobs * payloads }, (_, payload) => ({
    id: String(payload % jobs),
    payload,
  }))
  await testQueue.push(...all)
  const { rounds } = await claimer.claim({ batchSize: jobs })
  await testQueue.push({ id: 'later' })
  const { queue, queueId } = testQueue
  return { queue, queueId, rounds, processId: claimer.processId }
}

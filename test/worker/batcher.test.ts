import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import type { Wish } from '../../src/store/exchange.ts'
import { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import { Batcher } from '../../src/worker/settling/batcher.ts'
import type { Travelling } from '../../src/worker/settling/piece.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
afterEach(() => void vi.restoreAllMocks())

// Calls carry 400 outcomes each, and four are under way at most. So 21 calls bring 10,000 down to 1,600, and the next one
// leaves the 1,200 that the other three can take.
test.each([
  ['many outcomes are left: it waits until the other calls can take them', 10_000, 1, 21, true],
  ['few are left: it goes with the first call', 1_000, 1, 0, true],
  ['few with many payloads are left: it goes beside them', 20, 1_000, 0, false],
])('a claim, while %s', async (_, jobs, payloads, place, together) => {
  const { queue, queueId, rounds, processId } = await claimed(jobs, payloads)
  const served = new ServedQueue(queue, queueId)
  const claimant = { served, processId, release() {}, shard: 0, slot: 0, startedAt: 0 }
  const batcher = new Batcher(env.database)
  const calls = vi.spyOn(env.database, 'alone')
  batcher.listener = {
    stored: (_, leftovers) => expect(leftovers).toEqual([]),
    failed: (_, error) => expect.fail(String(error)),
  }
  const piece = { claimant, queueId, kind: 'complete', failures: [], uncertain: false, alone: false } as const
  for (const round of rounds)
    batcher.settle({ ...piece, rounds: [round], skips: 0, waits: 0, answered: undefined } as Travelling)
  const { maxBytes } = queue
  const key = { queueId, shard: 0, lane: 0 }
  const wish: Wish = { key, cursor: { after: null, afterId: '' }, count: 1, maxBytes, maxPayloads: undefined }
  const { rounds: later } = await batcher.claim(processId, wish, { jobs: 1, size: 0 })
  expect(later.map(({ id }) => id)).toEqual(['later'])
  const texts = calls.mock.calls.map(([text]) => text)
  const claiming = texts.findIndex((text) => text.includes('.claim('))
  expect(claiming).toBe(place)
  expect(texts[claiming]!.includes('.complete(')).toBe(together)
})

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

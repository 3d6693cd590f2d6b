import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { replaceSetting } from '../../src/store/queue-setting.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

async function full(): Promise<TestQueue> {
  const testQueue = await env.queue({ limits: { concurrency: 1 } })
  await replaceSetting(env.database, 'limits', [
    { queueId: testQueue.queueId, value: testQueue.queue.limits },
  ])
  await testQueue.push({ id: 'a' }, { id: 'b' }, { id: 'c' })
  return testQueue
}

interface Turn {
  readonly process: number
  readonly since: Date
}

const turns = ({ queueId }: TestQueue) =>
  env.query<Turn>(
    'SELECT process_id AS process, since FROM lockstep.turns WHERE queue_id = $1 ORDER BY process_id',
    [queueId],
  )

/** As if so many ms had passed since they were noted. */
const age = ({ queueId }: TestQueue, ms: number) =>
  env.query(
    `UPDATE lockstep.turns SET seen_at = seen_at - $2 * interval '1 ms', since = since - $2 * interval '1 ms'
     WHERE queue_id = $1`,
    [queueId, ms],
  )

describe('R9 a process that waits for a place', () => {
  test('is noted once, since it began to wait, however often it asks', async () => {
    const testQueue = await full()
    const [one, other] = [await testQueue.claimer(), await testQueue.claimer()]
    await one.take()
    for (let n = 0; n < 4; n += 1) {
      await other.claim()
      await age(testQueue, 100)
    }
    const [turn, ...rest] = await turns(testQueue)
    expect(rest).toEqual([])
    expect(turn!.process).toBe(other.processId)
    expect(Date.now() - turn!.since.getTime()).toBeGreaterThanOrEqual(400)
  })

  test('has waited for nothing if it has not asked for a second, and loses its turn when it gets a place', async () => {
    const testQueue = await full()
    const [one, other] = [await testQueue.claimer(), await testQueue.claimer()]
    const first = await one.take()
    await other.claim()
    await age(testQueue, 1_500)
    await other.claim()
    const seen = (await turns(testQueue)).map(({ since }) => Date.now() - since.getTime() < 1_400)
    expect(seen).toEqual([false, true])
    await one.complete(first)
    expect((await other.claim()).rounds).toHaveLength(1)
    // What is left of the first time doesn't count, until it's trimmed.
    expect(await turns(testQueue)).toHaveLength(1)
  })
})

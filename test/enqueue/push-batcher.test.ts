import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

const PRODUCERS = 50

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
  await env.query(`ALTER TABLE lockstep.jobs ADD CONSTRAINT refused CHECK (id <> 'z')`)
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue()
  // From here on, the queue is known and the sessions are open.
  await push('first')
})
afterEach(() => env.endSessions())

const push = (id: string, payload: unknown = id) => env.lockstep.enqueue(testQueue.queue, { id, payload })
const ids = Array.from({ length: PRODUCERS }, (_, index) => `${index}`)

describe('pushes that come while others are under way go together', () => {
  test('all are stored, with fewer commits than calls', async () => {
    const before = await transactions()
    expect(await Promise.all(ids.map((id) => push(id)))).toEqual(ids.map(() => 1))
    expect((await transactions()) - before).toBeLessThan(PRODUCERS / 2)
    expect(await testQueue.countJobs()).toBe(PRODUCERS + 1)
  })

  test('R1: payloads of one id that go together keep the order of the calls', async () => {
    const [first, second, ...others] = ids
    const alone = [push('a', first), push('a', second)]
    await Promise.all([...alone, ...others.map((payload) => push('a', payload))])
    const claimer = await testQueue.claimer()
    const payloads: unknown[] = []
    for (let claim = await claimer.claim(); claim.rounds.length > 0; claim = await claimer.claim()) {
      payloads.push(...claim.rounds.flatMap((round) => round.payloads))
    }
    expect(payloads.filter((payload) => others.includes(payload as string))).toEqual(others)
  })

  test('several queues, each its own', async () => {
    const other = await env.queue()
    const pushOther = (id: string) => env.lockstep.enqueue(other.queue, { id })
    await Promise.all(ids.flatMap((id) => [push(id), pushOther(id)]))
    expect([await testQueue.countJobs(), await other.countJobs()]).toEqual([PRODUCERS + 1, PRODUCERS])
  })

  test('what is refused is refused alone', async () => {
    const pushes = await Promise.allSettled([...ids, 'z'].map((id) => push(id)))
    const refused = pushes.filter(({ status }) => status === 'rejected')
    expect(refused).toMatchObject([{ reason: { message: expect.stringContaining('constraint "refused"') } }])
    expect(await testQueue.countJobs()).toBe(PRODUCERS + 1)
  })

  test('P7: a row in somebody’s open transaction holds up its own pushes alone', async () => {
    const holder = await env.transaction()
    await testQueue.pushIn(holder, { id: 'held', payload: 1 })
    const held = [2, 3, 4].map((payload) => push('held', payload))
    await Promise.all(ids.map((id) => push(id)))
    expect(await testQueue.countJobs()).toBe(PRODUCERS + 1)
    await holder.query('COMMIT')
    await Promise.all(held)
    expect(await testQueue.countPayloads()).toBe(PRODUCERS + 1 + 4)
  })
})

/** How many transactions have written so far. */
async function transactions(): Promise<number> {
  const [row] = await env.query<{ count: number }>(
    'SELECT pg_snapshot_xmax(pg_current_snapshot())::text::integer AS count',
  )
  return row!.count
}

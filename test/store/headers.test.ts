import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { inChunks } from '../../src/enqueue/chunks.ts'
import { MOST_BYTES } from '../../src/store/exchange.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'
import { storedPayloads } from '../support/stored-payloads.ts'

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue()
})
afterEach(() => env.endSessions())

const A = { trace: 'a' }
const B = { trace: 'b' }

async function storedHeaders(table: 'payloads' | 'morgue' = 'payloads'): Promise<unknown[]> {
  const rows = await env.query<{ headers: unknown }>(
    `SELECT headers FROM ${table === 'payloads' ? storedPayloads() : 'lockstep.morgue'} p WHERE queue_id = $1 ORDER BY job_id, score`,
    [testQueue.queueId],
  )
  return rows.map(({ headers }) => headers)
}

describe('headers come with each payload, in its place', () => {
  const JOBS = [
    { id: 'a', payload: 2, score: 2, headers: A },
    { id: 'a', payload: 1, score: 1 },
    { id: 'a', payload: 3, score: 3, headers: null },
  ]

  test('from one call, where the job is new', async () => {
    await testQueue.push(...JOBS)
    expect((await (await testQueue.claimer()).take()).headers).toEqual([null, A, null])
  })

  test('from calls one by one', async () => {
    for (const job of JOBS) await testQueue.push(job)
    expect((await (await testQueue.claimer()).take()).headers).toEqual([null, A, null])
  })

  test.each([1, 3])('from %i calls in a transaction that creates the queue', async (calls) => {
    const lockstep = env.lockstepAnew()
    const tx = await env.transaction()
    const queue = { ...testQueue.queue, name: `created for ${calls}` }
    for (let call = 0; call < calls; call += 1)
      await lockstep.enqueue(queue, JOBS.slice(call * (3 / calls), (call + 1) * (3 / calls)), { tx })
    await tx.query('COMMIT')
    const { items } = await env.lockstep.find(queue, {})
    expect(items.map(({ payloads }) => payloads)).toEqual([
      [
        { payload: 1, score: 1 },
        { payload: 2, score: 2, headers: A },
        { payload: 3, score: 3 },
      ],
    ])
  })

  test('from calls that go together', async () => {
    await Promise.all(
      Array.from({ length: 20 }, (_, n) => testQueue.push({ id: `${n}`, payload: n, headers: { n } })),
    )
    const { rounds } = await (await testQueue.claimer()).claim({ batchSize: 20 })
    expect(rounds).toHaveLength(20)
    for (const { payloads, headers } of rounds) expect(headers).toEqual([{ n: payloads[0] }])
  })

  test('from SQL, one and many', async () => {
    const { name } = testQueue.queue
    await env.query(`SELECT lockstep.enqueue($1, 'a', '1', 1, headers => '{"trace": "a"}')`, [name])
    await env.query(
      `SELECT lockstep.enqueue_many($1, '{a,a}', '{2,3}', '{2,3}', NULL, NULL, ARRAY[NULL, '{"trace": "b"}']::jsonb[])`,
      [name],
    )
    expect((await (await testQueue.claimer()).take()).headers).toEqual([A, null, B])
  })

  test('where they are loaded after the claim', async () => {
    await testQueue.push({ id: 'a', payload: 'x'.repeat(MOST_BYTES), score: 1 })
    await testQueue.push({ id: 'a', payload: 'y', score: 2, headers: A })
    const claimer = await testQueue.claimer()
    const { rounds } = await claimer.claim()
    expect(rounds[0]).toMatchObject({ toLoad: true, headers: undefined })
    const large = (await claimer.load(rounds[0]!))!
    expect([large.payloads.length, large.headers]).toEqual([1, undefined])
    await claimer.complete(large)
    expect((await claimer.take()).headers).toEqual([A])
  })

  test('with what a view shows: working, waiting and dead', async () => {
    await testQueue.push({ id: 'a', payload: 1, score: 1, headers: A })
    const claimer = await testQueue.claimer()
    await claimer.take()
    await testQueue.push({ id: 'a', payload: 2, score: 2, headers: B })
    const queue = [testQueue.queue.name]
    expect(await env.query('SELECT payloads FROM lockstep.working WHERE queue = $1', queue)).toEqual([
      { payloads: [{ payload: 1, score: 1, headers: A }] },
    ])
    expect(await env.query('SELECT payloads FROM lockstep.waiting WHERE queue = $1', queue)).toEqual([
      { payloads: [{ payload: 2, score: 2, headers: B }] },
    ])
    await env.lockstep.kill(testQueue.queue, {})
    expect(await env.query('SELECT headers FROM lockstep.dead WHERE queue = $1', queue)).toEqual([
      { headers: B },
    ])
    const { items } = await env.lockstep.findDead(testQueue.queue, {})
    expect(items).toMatchObject([{ payload: 2, headers: B }])
  })

  test('and count against the text of a statement', () => {
    const job = {
      id: 'a',
      payload: '1',
      score: null,
      performIn: null,
      lane: 0,
      tenant: null,
      expiresIn: null,
    }
    const jobs = (headers: string | null) => Array.from({ length: 1_000 }, () => ({ ...job, headers }))
    expect([...inChunks(jobs(null))]).toHaveLength(1)
    expect([...inChunks(jobs('x'.repeat(16_000)))].length).toBeGreaterThan(3)
  })

  test('and count against the bytes of a claim', async () => {
    const headers = { padding: 'x'.repeat(16_000) }
    const length = Math.ceil(MOST_BYTES / 16_000) + 1
    await testQueue.push(...Array.from({ length }, (_, n) => ({ id: `${n}`, payload: n, headers })))
    const { rounds } = await (await testQueue.claimer()).claim({ batchSize: length })
    expect(rounds).toHaveLength(length)
    expect(rounds.filter(({ toLoad }) => toLoad).length).toBeGreaterThan(0)
  })
})

describe('of equal payloads the headers of the first that was pushed stay', () => {
  test('whatever they are: headers are no part of equality', async () => {
    await testQueue.push({ id: 'a', payload: 1, headers: A })
    await testQueue.push({ id: 'a', payload: 1, headers: B })
    await testQueue.push({ id: 'a', payload: 1 })
    await testQueue.push({ id: 'b', payload: 1 })
    await testQueue.push({ id: 'b', payload: 1, headers: A })
    expect(await storedHeaders()).toEqual([A, null])
  })

  test('beside the payload that the job’s row carries, one by one and many', async () => {
    for (const id of ['a', 'b']) await testQueue.push({ id, payload: 0, score: 9 })
    for (const [score, headers] of [
      [5, A],
      [3, B],
    ] as const) {
      await testQueue.push({ id: 'a', payload: 1, score, headers })
      await testQueue.push({ id: 'b', payload: 1, score, headers }, { id: 'b', payload: 0, score: 9 })
    }
    const { items } = await env.lockstep.find(testQueue.queue, {})
    for (const { payloads } of items)
      expect(payloads).toEqual([
        { payload: 1, score: 3, headers: A },
        { payload: 0, score: 9 },
      ])
    expect(items).toHaveLength(2)
  })

  test('in one call, and across calls, where a later one has the lower score', async () => {
    await testQueue.push({ id: 'a', payload: 1, score: 5, headers: A })
    await testQueue.push({ id: 'a', payload: 1, score: 3, headers: B })
    await testQueue.push({ id: 'b', payload: 0 })
    await testQueue.push(
      { id: 'b', payload: 1, score: 5, headers: A },
      { id: 'b', payload: 1, score: 3, headers: B },
    )
    expect(await testQueue.set('a')).toEqual(['1[3]'])
    const { items } = await env.lockstep.find(testQueue.queue, {})
    expect(items.map(({ payloads }) => payloads)).toEqual([
      [{ payload: 1, score: 3, headers: A }],
      [{ payload: 1, score: 3, headers: A }, expect.objectContaining({ payload: 0 })],
    ])
  })

  /**
   * A failed round with headers `A`, and an equal payload with a lower score and headers `B`, pushed during the round.
   */
  async function pushedAgain(): Promise<void> {
    await testQueue.push({ id: 'a', payload: 1, score: 5, headers: A })
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    await testQueue.push({ id: 'a', payload: 1, score: 3, headers: B })
    await claimer.fail([round])
  }

  test.each([undefined, 1])('when rounds unite; maxPayloads %s', async (maxPayloads) => {
    testQueue = await env.queue({ maxPayloads })
    await pushedAgain()
    expect((await env.lockstep.find(testQueue.queue, {})).items[0]!.payloads).toEqual([
      { payload: 1, score: 3, headers: A },
    ])
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    expect([round.payloads, round.scores, round.headers]).toEqual([[1], [3], [A]])
    expect(await claimer.complete(round)).toEqual([])
    expect(await testQueue.countPayloads()).toBe(0)
  })

  test('when they die together', async () => {
    await pushedAgain()
    const claimer = await testQueue.claimer()
    await claimer.fail([await claimer.take()], null)
    expect(await storedHeaders('morgue')).toEqual([A])
  })

  test('when they are killed together', async () => {
    await pushedAgain()
    await env.lockstep.kill(testQueue.queue, {})
    expect(await storedHeaders('morgue')).toEqual([A])
  })

  test('when a second one dies', async () => {
    for (const headers of [A, B]) {
      await testQueue.push({ id: 'a', payload: 1, score: 3, headers })
      await env.lockstep.kill(testQueue.queue, {})
    }
    expect(await storedHeaders('morgue')).toEqual([A])
    await env.lockstep.requeue(testQueue.queue, {})
    expect(await storedHeaders()).toEqual([A])
  })

  test('when a dead one comes back, of those that wait', async () => {
    await testQueue.push({ id: 'a', payload: 1, score: 3, headers: B })
    await env.lockstep.kill(testQueue.queue, {})
    await testQueue.push({ id: 'a', payload: 1, score: 5, headers: A })
    await env.lockstep.requeue(testQueue.queue, {})
    const { items } = await env.lockstep.find(testQueue.queue, {})
    expect(items).toMatchObject([{ payloads: [{ payload: 1, score: 3, headers: A }] }])
  })

  test('when a dead one comes back, of those that wait beside the payload that the row carries', async () => {
    await testQueue.push({ id: 'a', payload: 1, score: 3, headers: B })
    await env.lockstep.kill(testQueue.queue, {})
    await testQueue.push({ id: 'a', payload: 0, score: 9 })
    await testQueue.push({ id: 'a', payload: 1, score: 5, headers: A })
    await env.lockstep.requeue(testQueue.queue, {})
    const { items } = await env.lockstep.find(testQueue.queue, {})
    expect(items).toMatchObject([{ payloads: [{ payload: 1, score: 3, headers: A }, { payload: 0 }] }])
  })

  test('when the next round was killed and comes back: of the round that was in work', async () => {
    await testQueue.push({ id: 'a', payload: 1, score: 3, headers: A })
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    await testQueue.push({ id: 'a', payload: 1, score: 3, headers: B })
    await env.lockstep.kill(testQueue.queue, {})
    await claimer.release(round)
    await env.lockstep.requeue(testQueue.queue, {})
    expect((await claimer.take()).headers).toEqual([A])
  })
})

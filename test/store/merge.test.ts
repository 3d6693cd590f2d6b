import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openStore, type StoreEnvironment, shown, type TestQueue } from '../support/store-environment.ts'
import { storedPayloads } from '../support/stored-payloads.ts'

const PERFORM_IN = 1_536_323_288_000
const LATER = 1_536_323_290_000

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
  testQueue = await env.queue()
})
afterAll(() => env?.close())

describe('R2 a push into a waiting job', () => {
  test('unites the sets and leaves the job as it is: v1[1] v2[2] and v2[3] v3[4]', async () => {
    await testQueue.push(
      { id: 'page', payload: 'v1', score: 1, performIn: PERFORM_IN },
      { id: 'page', payload: 'v2', score: 2, performIn: PERFORM_IN },
    )
    await failOnceAndWaitFrom('page', PERFORM_IN)

    await testQueue.push(
      { id: 'page', payload: 'v2', score: 3, performIn: LATER },
      { id: 'page', payload: 'v3', score: 4, performIn: LATER },
    )
    expect(await testQueue.set('page')).toEqual(['v1[1]', 'v2[2]', 'v3[4]'])
    expect(await testQueue.job('page')).toMatchObject({ retry_count: 0, performIn: PERFORM_IN })
  })

  test('takes the smaller score of equal payloads: v[10] and v[3]', async () => {
    const testQueue = await env.queue()
    await testQueue.push({ id: 'score', payload: 'v', score: 10 })
    await testQueue.push({ id: 'score', payload: 'v', score: 3 })
    expect(await testQueue.set('score')).toEqual(['v[3]'])

    await testQueue.push({ id: 'score', payload: 'v', score: 7 })
    expect(await testQueue.set('score')).toEqual(['v[3]'])
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    expect(shown([round])).toEqual(['score: v[3]'])
    expect(await claimer.complete(round)).toEqual([])
    expect(await testQueue.countPayloads('score')).toBe(0)
  })

  test('neither hastens nor delays it, and leaves lane, count and error', async () => {
    for (const performIn of [PERFORM_IN - 1, PERFORM_IN + 1]) {
      await testQueue.push({ id: 'still', payload: performIn, performIn: PERFORM_IN, lane: 2 })
      await testQueue.push({ id: 'still', payload: 'x', performIn, lane: 7 })
      expect(await testQueue.job('still')).toMatchObject({
        performIn: PERFORM_IN,
        nextPerformIn: null,
        lane: 2,
        retry_count: -1,
      })
    }

    await testQueue.push({ id: 'failed', payload: 1 })
    await failOnceAndWaitFrom('failed', PERFORM_IN)
    await testQueue.push({ id: 'failed', payload: 2 })
    expect(await testQueue.job('failed')).toMatchObject({
      error: 'failed',
      retry_count: 0,
      performIn: PERFORM_IN,
    })
  })

  test.each([
    ['keys in another order', { a: 1, b: { c: 2, d: 3 } }, { b: { d: 3, c: 2 }, a: 1 }, 1],
    ['numbers written otherwise', [1, 100], [1.0, 1e2], 1],
    ['arrays in another order', [1, 2], [2, 1], 2],
    ['a number and its text', 1, '1', 2],
    ['null and the default', null, undefined, 2],
    ['upper and lower case', 'v', 'V', 2],
    ['é composed and decomposed', '\u00e9', 'e\u0301', 2],
  ])('knows equal JSON values: %s', async (name, one, other, payloads) => {
    await testQueue.push({ id: name, payload: one }, { id: name, payload: other })
    await testQueue.push({ id: name, payload: other }, { id: name, payload: one })
    expect(await testQueue.countPayloads(name)).toBe(payloads)
  })

  test('knows equal JSON texts of other languages, whatever their spaces and order of keys', async () => {
    const texts = ['{"a": 1, "b": 2}', '{"b":2,"a":1}', ' {"b":2,"a":9,"a":1} ']
    for (const text of texts) {
      await env.query('SELECT lockstep.enqueue($1, $2, $3::text::jsonb)', [
        testQueue.queue.name,
        'texts',
        text,
      ])
    }
    expect(await testQueue.countPayloads('texts')).toBe(1)
  })
})

describe('R2 equality is that of the stored text: 1 and 1.0 are two payloads', () => {
  const TEXTS = ['{"a":1}', '{"a":1.0}', '{ "a": 1.00 }', '{"a":1}', '{"a": 1.0}']

  /** Pushes, from SQL, three payloads that jsonb calls equal, with the scores 0, 1 and 2. */
  async function pushed(maxPayloads?: number): Promise<TestQueue> {
    const queue = await env.queue({ maxPayloads })
    for (const [score, text] of TEXTS.entries()) {
      await env.query('SELECT lockstep.enqueue($1, $2, $3::text::jsonb, $4)', [
        queue.queue.name,
        'a',
        text,
        score,
      ])
    }
    await env.query('SELECT lockstep.enqueue_many($1, $2, $3::text[]::jsonb[], $4, $5, $6)', [
      queue.queue.name,
      ['a', 'a'],
      ['{"a":1.0}', '{"a":1.00}'],
      [7, 8],
      [null, null],
      [null, null],
    ])
    return queue
  }

  async function textsOf(table: 'payloads' | 'morgue', { queueId }: TestQueue): Promise<string[]> {
    const rows = await env.query<{ text: string }>(
      `SELECT payload::text AS text FROM ${table === 'payloads' ? storedPayloads() : 'lockstep.morgue'} p WHERE queue_id = $1 ORDER BY score`,
      [queueId],
    )
    return rows.map(({ text }) => text)
  }
  const STORED = ['{"a": 1}', '{"a": 1.0}', '{"a": 1.00}']

  test('both are kept, and handed over', async () => {
    const queue = await pushed()
    expect(await textsOf('payloads', queue)).toEqual(STORED)
    const claimer = await queue.claimer()
    const round = await claimer.take()
    expect([round.payloads, round.scores]).toEqual([
      [{ a: 1 }, { a: 1 }, { a: 1 }],
      [0, 1, 2],
    ])
    expect(await claimer.complete(round)).toEqual([])
    expect(await queue.countPayloads()).toBe(0)
  })

  test('where maxPayloads cuts, each comes in its turn', async () => {
    const queue = await pushed(1)
    const claimer = await queue.claimer()
    for (const [place, score] of [0, 1, 2].entries()) {
      const round = await claimer.take()
      expect(round.scores).toEqual([score])
      await claimer.complete(round)
      expect(await textsOf('payloads', queue)).toEqual(STORED.slice(place + 1))
    }
  })

  test('kill and requeue take each along', async () => {
    const queue = await pushed()
    await env.lockstep.kill(queue.queue, {})
    expect(await textsOf('morgue', queue)).toEqual(STORED)
    await env.lockstep.requeue(queue.queue, {})
    expect(await textsOf('payloads', queue)).toEqual(STORED)
  })

  test('a death takes one of them', async () => {
    const queue = await pushed()
    const claimer = await queue.claimer()
    await claimer.fail([await claimer.take()], null)
    expect(await textsOf('morgue', queue)).toEqual(STORED.slice(0, 1))
    expect(await textsOf('payloads', queue)).toEqual(STORED.slice(1))
  })
})

describe('R2 several entries of one id in one call', () => {
  test('merge like calls one after the other: the first one’s time and lane, the smallest score', async () => {
    await testQueue.push(
      { id: 'twice', payload: 'v', score: 5, performIn: LATER, lane: 3 },
      { id: 'other', payload: 'w', score: 1 },
      { id: 'twice', payload: 'u', score: 4, performIn: PERFORM_IN, lane: 1 },
      { id: 'twice', payload: 'v', score: 2, performIn: PERFORM_IN },
    )
    expect(await testQueue.set('twice')).toEqual(['v[2]', 'u[4]'])
    expect(await testQueue.job('twice')).toMatchObject({ performIn: LATER, lane: 3 })
  })
})

describe('P2 payloads of one id are handed over by score, equal scores in push order', () => {
  test('within a call and across calls', async () => {
    const payloads = Array.from({ length: 30 }, (_, i) => `p${(i * 7) % 30}`)
    await testQueue.push(...payloads.slice(0, 20).map((payload) => ({ id: 'order', payload, score: 5 })))
    for (const payload of payloads.slice(20)) await testQueue.push({ id: 'order', payload, score: 5 })
    await testQueue.push({ id: 'order', payload: 'first', score: -1.5 })
    expect(await testQueue.set('order')).toEqual(['first[-1.5]', ...payloads.map((one) => `${one}[5]`)])
  })

  test('an equal push with an equal score keeps its place, one with a lower score is pushed anew', async () => {
    const push = (payload: string, score: number) => testQueue.push({ id: 'merged', payload, score })
    await push('a', 5)
    await push('b', 3)
    await push('c', 3)
    await push('b', 3)
    expect(await testQueue.set('merged')).toEqual(['b[3]', 'c[3]', 'a[5]'])
    await push('a', 3)
    expect(await testQueue.set('merged')).toEqual(['b[3]', 'c[3]', 'a[3]'])
  })

  test('what the view shows is what a claim hands over', async () => {
    const queue = await env.queue({ batchSize: 10 })
    await queue.push(
      ...['z', 'y', 'x'].map((payload) => ({ id: 'a', payload, score: 1 })),
      { id: 'a', payload: 'w', score: 0 },
      { id: 'b', payload: 'v', score: -1 },
    )
    const { rounds } = await (await queue.claimer()).claim()
    expect(shown(rounds)).toEqual(['a: w[0] z[1] y[1] x[1]', 'b: v[-1]'])
  })

  test('default scores are in push order too', async () => {
    const queue = await env.queue()
    const payloads = Array.from({ length: 2_500 }, (_, i) => (i * 7) % 2_500)
    await queue.push(...payloads.map((payload) => ({ id: 'a', payload })))
    const round = await (await queue.claimer()).take()
    expect(round.payloads).toEqual(payloads)
  })
})

/** Turns the id into a waiting job that has failed once, with this `perform_in`. */
async function failOnceAndWaitFrom(id: string, performIn: number): Promise<void> {
  await env.query(
    `UPDATE lockstep.jobs SET retry_count = 0, error = 'failed', perform_in = to_timestamp($3::float8 / 1000)
     WHERE queue_id = $1 AND id = $2`,
    [testQueue.queueId, id, performIn],
  )
}

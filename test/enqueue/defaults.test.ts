import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue({ batchSize: 10 })
})
afterEach(() => env.endSessions())

describe('R1 the defaults', () => {
  test('are an empty text, the time, and lane 0', async () => {
    const before = Date.now()
    await testQueue.push({ id: 'a' })
    const after = Date.now() + 1
    const job = await testQueue.job('a')
    expect(job).toMatchObject({ lane: 0, retry_count: -1, crashes: 0, error: null })
    const round = await (await testQueue.claimer()).take()
    expect(round.payloads).toEqual([''])
    for (const time of [job.performIn, round.scores[0]!]) {
      expect(time).toBeGreaterThanOrEqual(before)
      expect(time).toBeLessThanOrEqual(after)
    }
  })

  test('are of the moment, not of the transaction’s start', async () => {
    const tx = await env.transaction()
    const { rows } = await tx.query('SELECT extract(epoch FROM now())::float8 * 1000 AS start')
    await testQueue.pushIn(tx, { id: 'a' })
    await testQueue.pushIn(tx, { id: 'b' })
    await testQueue.pushIn(tx, { id: 'a', payload: 2 })
    await tx.query('COMMIT')

    const { rounds } = await (await testQueue.claimer()).claim()
    const [a, b] = rounds
    expect(a!.performIn).toBeGreaterThan(rows[0].start * 1000)
    expect(b!.performIn).toBeGreaterThan(a!.performIn)
    const [first, second, third] = [a!.scores[0]!, b!.scores[0]!, a!.scores[1]!]
    expect(first).toBeGreaterThan(rows[0].start)
    expect(second).toBeGreaterThan(first)
    expect(third).toBeGreaterThan(second)
  })

  test('stand in for undefined and null', async () => {
    const nothing = { payload: undefined, score: undefined, performIn: undefined, lane: undefined }
    await testQueue.push({ id: 'a', ...nothing })
    await testQueue.push({ id: 'b', score: null, performIn: null, lane: null } as never)
    const { rounds } = await (await testQueue.claimer()).claim()
    expect(rounds.map(({ id, payloads }) => [id, payloads])).toEqual([
      ['a', ['']],
      ['b', ['']],
    ])
  })

  test('null is a payload of its own', async () => {
    await testQueue.push({ id: 'a', payload: null })
    expect((await (await testQueue.claimer()).take()).payloads).toEqual([null])
  })
})

describe('R1 what is given', () => {
  test.each<[string, string | number | bigint, string]>([
    ['text', 'order-1', 'order-1'],
    ['a whole number', 42, '42'],
    ['zero', 0, '0'],
    ['a fraction', -1.5, '-1.5'],
    ['a big number', Number.MAX_SAFE_INTEGER, '9007199254740991'],
    ['a bigint, as some libraries have ids', 9_007_199_254_740_993n, '9007199254740993'],
    ['1,024 bytes', 'é'.repeat(512), 'é'.repeat(512)],
    ['spaces', ' a ', ' a '],
    ['quotes and commas', `{"a",'b'\\}`, `{"a",'b'\\}`],
    ['the word NULL', 'NULL', 'NULL'],
    ['characters beyond the basic plane', '😀', '😀'],
  ])('an id is text, and numbers become it: %s', async (_name, id, stored) => {
    await testQueue.push({ id, payload: 'v', score: 1 })
    expect(await testQueue.set(stored)).toEqual(['v[1]'])
  })

  test('a number and its text are one id', async () => {
    await testQueue.push({ id: 7, payload: 'v', score: 1 }, { id: '7', payload: 'w', score: 2 })
    expect(await testQueue.set('7')).toEqual(['v[1]', 'w[2]'])
  })

  test.each<[string, number | Date, number]>([
    ['a fraction', -1.5, -1.5],
    ['the smallest number', 5e-324, 5e-324],
    ['the largest number', Number.MAX_VALUE, Number.MAX_VALUE],
    ['minus zero', -0, 0],
    ['a Date', new Date(1_536_323_288_123), 1_536_323_288_123],
    ['a Date before 1970', new Date(-1), -1],
  ])('a score is kept as it is: %s', async (_name, score, stored) => {
    await testQueue.push({ id: 'a', score })
    expect((await (await testQueue.claimer()).take()).scores).toEqual([stored])
  })

  test.each<[string, number | Date]>([
    ['a Date', new Date(1_536_323_288_123)],
    ['ms since 1970', 1_536_323_288_123],
    ['long ago', -62_135_596_800_000],
    ['far off', 253_402_300_799_999],
  ])('performIn is kept to the millisecond: %s', async (_name, performIn) => {
    await testQueue.push({ id: 'a', performIn })
    expect((await testQueue.job('a')).performIn).toBe(Number(performIn))
  })

  test('one job, an array, a set or a generator, and nothing at all', async () => {
    const { lockstep } = env
    expect(await lockstep.enqueue(testQueue.queue, { id: 'one' })).toBe(1)
    expect(await lockstep.enqueue(testQueue.queue, [])).toBe(0)
    expect(await lockstep.enqueue(testQueue.queue, new Set([{ id: 'set' }]))).toBe(1)
    function* jobs() {
      yield { id: 'a' }
      yield { id: 'b' }
    }
    expect(await lockstep.enqueue(testQueue.queue, jobs())).toBe(2)
    expect(await testQueue.countJobs()).toBe(4)
  })

  test('a queue is made at its first use, with its shards, and those stay', async () => {
    const { lockstep } = env
    const queue = { ...testQueue.queue, name: 'made by a push', shards: 7 }
    await lockstep.enqueue(queue, { id: 'a' })
    await env.lockstepAnew().enqueue({ ...queue, shards: 9 }, { id: 'b' })
    const rows = await env.query('SELECT shards FROM lockstep.queues WHERE name = $1', [queue.name])
    expect(rows).toEqual([{ shards: 7 }])
  })
})

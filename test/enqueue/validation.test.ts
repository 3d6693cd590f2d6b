import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { JobError } from '../../src/errors.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue()
})

const circular: { self?: unknown } = {}
circular.self = circular

let deep: object = {}
for (let depth = 0; depth < 50_000; depth += 1) deep = { deep }

const throwNothing = () => {
  throw undefined
}

const BAD: [string, string, object, RegExp][] = [
  ['no id', 'id', {}, /is required/],
  ['a null id', 'id', { id: null }, /is required/],
  ['an empty id', 'id', { id: '' }, /must not be empty/],
  ['an id of 2,000 bytes', 'id', { id: 'é'.repeat(1_000) }, /at most 1,024 bytes, not 2000/],
  ['an id of 1,025 bytes', 'id', { id: `${'é'.repeat(512)}a` }, /not 1025/],
  ['an id that is not a number', 'id', { id: Number.NaN }, /text or a finite number, not NaN/],
  ['an infinite id', 'id', { id: Number.POSITIVE_INFINITY }, /not Infinity/],
  [
    'an id with more digits than a number has',
    'id',
    { id: 2 ** 53 },
    /represents exactly, not 9007199254740992: pass it as text/,
  ],
  ['an id that is an object', 'id', { id: { a: 1 } }, /not an object/],
  ['a bigint id of 1,025 digits', 'id', { id: 10n ** 1_024n }, /at most 1,024 bytes, not 1025/],
  ['an id that is a truth value', 'id', { id: true as never }, /not true/],
  ['an id with \\u0000', 'id', { id: 'a\u0000b' }, /well-formed text without \\u0000/],
  ['an id with an unpaired surrogate', 'id', { id: 'a\ud800' }, /well-formed/],
  [
    'a payload whose toJSON throws nothing',
    'payload',
    { payload: { toJSON: throwNothing } },
    /it threw undefined/,
  ],
  [
    'headers whose toJSON throws nothing',
    'headers',
    { headers: { toJSON: throwNothing } },
    /it threw undefined/,
  ],
  ['a circular payload', 'payload', { payload: circular }, /can’t be written as JSON .*circular/],
  ['a payload too deep for JSON.stringify', 'payload', { payload: deep }, /nests too deeply, so flatten it$/],
  ['a bigint payload', 'payload', { payload: { n: 1n } }, /BigInt/],
  ['a function as payload', 'payload', { payload: () => {} }, /a function/],
  ['a symbol as payload', 'payload', { payload: Symbol('s') }, /Symbol\(s\)/],
  ['\\u0000 in a payload', 'payload', { payload: { a: ['x\u0000'] } }, /contains \\u0000/],
  ['\\u0000 after backslashes', 'payload', { payload: '\\\\\\\u0000' }, /contains \\u0000/],
  ['\\u0000 in a key', 'payload', { payload: { 'a\u0000': 1 } }, /contains \\u0000/],
  ['an unpaired surrogate', 'payload', { payload: 'x\udfff' }, /contains \\udfff/],
  ['two surrogates in the wrong order', 'payload', { payload: '\udc00\ud800' }, /contains \\udc00/],
  ['20 MB', 'payload', { payload: 'x'.repeat(20_000_000) }, /at most 8 MiB, not 20000002 bytes/],
  ['a NaN score', 'score', { score: Number.NaN }, /finite number or a valid Date, not NaN/],
  ['an infinite score', 'score', { score: Number.NEGATIVE_INFINITY }, /not -Infinity/],
  ['an invalid Date as score', 'score', { score: new Date('never') }, /not NaN/],
  ['text as score', 'score', { score: '1' }, /not "1"/],
  ['an invalid Date', 'performIn', { performIn: new Date('never') }, /valid Date or ms/],
  ['an infinite time', 'performIn', { performIn: Number.POSITIVE_INFINITY }, /valid Date or ms/],
  ['text as time', 'performIn', { performIn: '2030-01-01' }, /not "2030-01-01"/],
  ['a time after the year 9999', 'performIn', { performIn: new Date(8.64e15) }, /year/],
  ['a time before the year 1', 'performIn', { performIn: -62_135_596_800_001 }, /year/],
  ['text as expiry', 'expiresIn', { expiresIn: '2030-01-01' }, /not "2030-01-01"/],
  ['an expiry after the year 9999', 'expiresIn', { expiresIn: new Date(8.64e15) }, /year/],
  [
    'an expiry before its time',
    'expiresIn',
    { performIn: 2_000, expiresIn: 1_999 },
    /not be before `performIn`/,
  ],
  ['a negative lane', 'lane', { lane: -1 }, /whole number from 0 to 32767, not -1/],
  ['a lane too high', 'lane', { lane: 32_768 }, /not 32768/],
  ['half a lane', 'lane', { lane: 0.5 }, /not 0.5/],
  ['text as lane', 'lane', { lane: '1' }, /not "1"/],
  ['an array as headers', 'headers', { headers: [1] }, /must be a plain object, not an array/],
  ['a Map as headers', 'headers', { headers: new Map([['a', 1]]) }, /must be a plain object, not a Map/],
  ['text as headers', 'headers', { headers: 'trace=1' }, /must be a plain object, not a string/],
  ['a function as headers', 'headers', { headers: () => {} }, /a function/],
  ['a bigint in headers', 'headers', { headers: { n: 1n } }, /BigInt/],
  ['\\u0000 in headers', 'headers', { headers: { a: '\u0000' } }, /contains \\u0000/],
  ['17 KB of headers', 'headers', { headers: { a: 'x'.repeat(17_000) } }, /at most 16 KiB, not 17008 bytes/],
  [
    'headers that are longer written out',
    'headers',
    { headers: { a: Array(99).fill(1e300) } },
    /at most 16 KiB/,
  ],
  [
    'an unknown field',
    'performAt',
    { performAt: 1 },
    /is unknown: the fields of a job are id, payload, score/,
  ],
]

describe('R1 a bad job is rejected by index and field, and nothing of its call is stored', () => {
  test.each(BAD)('%s', async (name, field, bad, problem) => {
    const job = field === 'id' ? bad : { id: 'bad', ...bad }
    const error = await testQueue.push({ id: 'a' }, { id: 'b' }, job as never, { id: 'c' }).catch((e) => e)
    expect(error, name).toBeInstanceOf(JobError)
    expect(error).toMatchObject({ code: 'LOCKSTEP_BAD_JOB', index: 2, field })
    expect(error.message).toMatch(
      new RegExp(`^jobs\\[2\\]\\.${field} ${problem.source.replace(/^/, '.*')}`, 's'),
    )
    expect(error.message.length).toBeLessThan(250)
    expect(await testQueue.countJobs()).toBe(0)
  })

  test.each([[null], [undefined], ['text'], [7]])('a job that is no object: %s', async (job) => {
    await expect(testQueue.push({ id: 'a' }, job as never)).rejects.toThrow(
      'jobs[1].id is missing: a job must be an object',
    )
    await expect(env.lockstep.enqueue(testQueue.queue, job as never)).rejects.toThrow('jobs[0].id is missing')
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('the first of several', async () => {
    const jobs = [{ id: 'a' }, { id: '', lane: -1 }, { id: '' }]
    await expect(testQueue.push(...jobs)).rejects.toMatchObject({ index: 1, field: 'id' })
  })

  test('what only the server finds out: the index is the caller’s, though jobs are sent in another order', async () => {
    const [row] = await env.query<{ text: string }>(
      `SELECT pg_get_functiondef('lockstep.problem_of'::regproc) AS text`,
    )
    const refusal = `WHEN _id = 'A refused' THEN 'perform_in is not to its liking' WHEN (_lane`
    await env.query(row!.text.replace('WHEN (_lane', refusal))
    const jobs = [{ id: 'b' }, { id: 'c' }, { id: 'A refused' }, { id: 'A' }]
    const error = await testQueue.push(...jobs).catch((e) => e)
    expect(error).toBeInstanceOf(JobError)
    expect(error).toMatchObject({
      index: 2,
      field: 'performIn',
      message: 'jobs[2].performIn is not to its liking',
    })
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('numbers that unfold beyond the limit, which the server finds out too', async () => {
    const payload = new Array(45_000).fill(1e300)
    expect(JSON.stringify(payload).length).toBeLessThan(400_000)
    const pushes = [
      testQueue.push({ id: 'b' }, { id: 'a', payload }),
      testQueue.push({ id: 'a', payload }),
      testQueue.push({ id: 'c' }),
    ]
    const limit = /must be at most 8 MiB, or 12 MiB with its numbers written out: store large data elsewhere/
    expect(await Promise.allSettled(pushes)).toMatchObject([
      {
        reason: {
          code: 'LOCKSTEP_BAD_JOB',
          index: 1,
          field: 'payload',
          message: expect.stringMatching(limit),
        },
      },
      {
        reason: {
          code: 'LOCKSTEP_BAD_JOB',
          index: 0,
          field: 'payload',
          message: expect.stringMatching(limit),
        },
      },
      { status: 'fulfilled' },
    ])
    expect(await testQueue.countJobs()).toBe(1)
  })

  test('an unknown option, and what is no queue', async () => {
    const { lockstep } = env
    const options = { transaction: 1 } as never
    await expect(lockstep.enqueue(testQueue.queue, { id: 'a' }, options)).rejects.toMatchObject({
      code: 'LOCKSTEP_BAD_OPTION',
      message: 'enqueue: unknown option `transaction`, the known ones are tx, wake',
    })
    for (const queue of ['orders', undefined, { name: 'orders' }]) {
      await expect(lockstep.enqueue(queue as never, { id: 'a' })).rejects.toMatchObject({
        code: 'LOCKSTEP_BAD_QUEUE',
        message: expect.stringContaining('defineQueue()'),
      })
    }
  })
})

describe('R1 what looks bad and is fine', () => {
  test.each([
    ['a backslash and u0000', '\\u0000'],
    ['more of them', '\\\\u0000 \\\\\\ud800'],
    ['a key like that', { '\\u0000': '\\\\ud83d' }],
    ['a surrogate pair', '\u{1f600}'],
    ['the replacement character', '\ufffd'],
    ['8 MiB', 'x'.repeat(8 * 1024 * 1024 - 2)],
    ['a million small numbers: more than 8 MiB as jsonb', new Array(1_000_000).fill(0)],
    ['numbers that unfold to 12 MB', new Array(40_000).fill(1e300)],
  ])('%s', async (_name, payload) => {
    await testQueue.push({ id: 'a', payload })
    expect((await (await testQueue.claimer()).take()).payloads).toEqual([payload])
  })
})

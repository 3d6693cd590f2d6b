import { AssertionError } from 'node:assert'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { assertEnqueued, assertNotEnqueued, enqueued } from '../../src/testing/index.ts'
import { matches } from '../../src/testing/matching.ts'
import { createMigrated, type TestDatabase } from '../support/database.ts'

const AT = new Date('2030-01-01T00:00:00Z')
const orders = defineQueue<{ status: string; items?: number[] }>('orders')

let database: TestDatabase
let lockstep: Lockstep

beforeAll(async () => {
  database = await createMigrated()
  lockstep = new Lockstep({ connectionString: database.connectionString })
  await lockstep.enqueue(orders, [
    {
      id: 'a',
      payload: { status: 'created', items: [1, 2] },
      score: 1,
      performIn: AT,
      lane: 3,
      tenant: 'acme',
    },
    { id: 'a', payload: { status: 'paid' }, score: 2, headers: { by: 'web' } },
  ])
})
afterAll(async () => {
  await lockstep?.close()
  await database?.drop()
})

async function failureOf(assertion: Promise<unknown>): Promise<AssertionError> {
  return assertion.then(
    () => expect.unreachable(),
    (error) => {
      expect(error).toBeInstanceOf(AssertionError)
      return error
    },
  )
}

test('enqueued lists each payload with its job', async () => {
  expect(await enqueued(lockstep, orders)).toEqual([
    {
      id: 'a',
      payload: { status: 'created', items: [1, 2] },
      score: 1,
      performIn: AT,
      lane: 3,
      headers: null,
      tenant: 'acme',
    },
    {
      id: 'a',
      payload: { status: 'paid' },
      score: 2,
      performIn: AT,
      lane: 3,
      headers: { by: 'web' },
      tenant: 'acme',
    },
  ])
})

test('a queue that does not exist yet is empty', async () => {
  const unused = defineQueue('unused')
  expect(await enqueued(lockstep, unused)).toEqual([])
  await assertNotEnqueued(lockstep, unused)
})

test('all of many pages', async () => {
  const many = defineQueue('many')
  await lockstep.enqueue(
    many,
    Array.from({ length: 2_500 }, (_, id) => ({ id })),
  )
  expect(await enqueued(lockstep, many)).toHaveLength(2_500)
})

describe('assertEnqueued', () => {
  test.each([
    {},
    { id: 'a' },
    { payload: { status: 'paid' } },
    { payload: { items: [1, 2] } },
    { payload: { status: expect.stringMatching(/^cr/) } },
    { performIn: AT, lane: 3, score: 1 },
    { headers: { by: 'web' } },
    { tenant: 'acme' },
  ])('resolves to what matches %o', async (expected) => {
    expect(await assertEnqueued(lockstep, orders, expected)).toMatchObject({ id: 'a' })
  })

  test('otherwise tells what waits, and has both sides for a difference', async () => {
    const error = await failureOf(assertEnqueued(lockstep, orders, { id: 'a', payload: { status: 'sent' } }))
    expect(error.message).toBe(
      `expected a payload in queue "orders" to match { id: 'a', payload: { status: 'sent' } }; these wait:
  a: { items: [ 1, 2 ], status: 'created' } [score 1]
  a: { status: 'paid' } [score 2]`,
    )
    expect(error.expected).toEqual({ id: 'a', payload: { status: 'sent' } })
    expect(error.actual).toMatchObject([{ payload: { status: 'created' } }, { payload: { status: 'paid' } }])
  })

  test('counts, if asked to', async () => {
    await assertEnqueued(lockstep, orders, { id: 'a' }, { times: 2 })
    const error = await failureOf(assertEnqueued(lockstep, orders, { id: 'a' }, { times: 1 }))
    expect(error.message).toContain('expected 1 payload in')
    expect(error.message).toContain(', and 2 do; these wait:')
    const none = await failureOf(assertEnqueued(lockstep, defineQueue('orders'), { id: 'b' }))
    expect(none.message).toContain("to match { id: 'b' }; these wait")
  })
})

test('assertNotEnqueued tells what waits though it should not', async () => {
  await assertNotEnqueued(lockstep, orders, { id: 'b' })
  const error = await failureOf(assertNotEnqueued(lockstep, orders, { payload: { status: 'paid' } }))
  expect(error.message).toBe(
    `expected no payload in queue "orders" to match { payload: { status: 'paid' } }, but this waits:
  a: { status: 'paid' } [score 2]`,
  )
  const any = await failureOf(assertNotEnqueued(lockstep, orders))
  expect(any.message).toContain('but these wait:')
})

describe('what is expected is compared as it would be stored', () => {
  const AT_ZERO = new Date(0)
  class Money {
    readonly cents = 5
  }
  const odd = defineQueue<unknown>('odd')
  beforeAll(() =>
    lockstep.enqueue(odd, {
      id: 42,
      payload: {
        at: AT_ZERO,
        price: new Money(),
        none: null,
        list: [1, undefined],
        zero: -0,
        nan: Number.NaN,
      },
      score: AT_ZERO,
      performIn: AT.getTime(),
      headers: { at: AT_ZERO },
    }),
  )

  test.each<Parameters<typeof assertEnqueued>[2] & object>([
    { id: 42 },
    { id: '42' },
    { score: AT_ZERO },
    { score: 0 },
    { performIn: AT },
    { payload: { at: AT_ZERO } },
    { payload: { at: '1970-01-01T00:00:00.000Z' } },
    { payload: { price: new Money() } },
    { payload: { price: { cents: expect.any(Number) } } },
    { payload: { none: null, missing: undefined } },
    { payload: { list: [1, undefined] } },
    { payload: { zero: -0 } },
    { payload: { nan: Number.NaN } },
    { headers: { at: AT_ZERO } },
    { id: expect.stringContaining('4') },
  ])('%o', async (expected) => {
    await assertEnqueued(lockstep, odd, expected)
    await failureOf(assertNotEnqueued(lockstep, odd, expected))
  })

  test.each([
    { id: 43 },
    { payload: { none: undefined } },
    { payload: { at: new Date(1) } },
    { headers: null },
  ])('not %o', async (expected) => {
    await assertNotEnqueued(lockstep, odd, expected)
    await failureOf(assertEnqueued(lockstep, odd, expected))
  })

  test('a queue of dates takes them, with its types', async () => {
    const dated = defineQueue<{ at: Date }>('dated')
    await lockstep.enqueue(dated, { id: 'a', payload: { at: AT_ZERO } })
    await assertEnqueued(lockstep, dated, { payload: { at: AT_ZERO } })
    await assertEnqueued(lockstep, dated, { payload: { at: AT_ZERO.toISOString() } })
  })
})

describe('a mistake in what is expected is refused, since it would match nothing:', () => {
  test.each<[string, unknown, RegExp]>([
    [
      'a misspelt field',
      { payLoad: { big: 1 } },
      /: expected: unknown option `payLoad`, did you mean `payload`\?$/,
    ],
    ['another case', { Id: 'a' }, /unknown option `Id`/],
    ['null', null, /: expected: the options must be an object, not null$/],
    ['a text', 'a', /must be an object, not "a"$/],
    ['a list', ['a'], /must be an object, not an array$/],
    ['an undefined id', { id: undefined }, /: expected.id is undefined: set it, or omit the key$/],
    ['an undefined payload', { payload: undefined }, /: expected.payload is undefined/],
    ['a null id', { id: null }, /: expected.id must not be null: omit the key$/],
    ['an empty id', { id: '' }, /: expected.id is required and must not be empty$/],
    ['a pattern as id', { id: /a/ }, /: expected.id must be text or a finite number, not an object$/],
    ['a text as score', { score: '5' }, /: expected.score must be a finite number or a valid Date, not "5"$/],
    [
      'a number as performIn',
      { performIn: 5 },
      /: expected.performIn must be a Date, as jobs have it, not 5$/,
    ],
    ['no date as performIn', { performIn: new Date('x') }, /: expected.performIn must be a valid Date/],
    ['a text as lane', { lane: '0' }, /: expected.lane must be a whole number from 0 to 32767, not "0"$/],
    ['a text as headers', { headers: 'web' }, /: expected.headers must be a plain object, not a string$/],
    [
      'a Map',
      { payload: { by: new Map([['a', 1]]) } },
      /: expected.payload.by is a Map, which JSON has as \{\}/,
    ],
    [
      'a function',
      { payload: [() => true] },
      /: expected.payload\[0\] is a function, which JSON does not have/,
    ],
    ['a bigint', { payload: { n: 1n } }, /: expected.payload.n is 1n, which JSON does not have/],
  ])('%s', async (_, expected, told) => {
    const given = expected as object
    for (const [name, assertion] of Object.entries({ assertEnqueued, assertNotEnqueued })) {
      await expect(assertion(lockstep, orders, given)).rejects.toMatchObject({
        code: 'LOCKSTEP_BAD_OPTION',
        message: expect.stringMatching(new RegExp(`^${name}: .*${told.source.replace(/^: /, '')}`)),
      })
    }
  })

  test.each<[string, () => Promise<unknown>, RegExp]>([
    [
      'assertEnqueued',
      () => assertEnqueued(lockstep, orders, {}, { time: 1 } as object),
      /^assertEnqueued: unknown option `time`, did you mean `times`\?$/,
    ],
    [
      'assertNotEnqueued',
      () => assertNotEnqueued(lockstep, orders, {}, { times: 1 } as object),
      /^assertNotEnqueued: unknown option `times`/,
    ],
    ['enqueued', () => enqueued(lockstep, orders, { tz: 1 } as object), /^enqueued: unknown option `tz`/],
    [
      'times',
      () => assertEnqueued(lockstep, orders, {}, { times: 1.5 }),
      /^assertEnqueued: times must be a whole number from 0 to \d+, not 1.5$/,
    ],
  ])('and in the options of %s', async (_, call, told) => {
    await expect(call()).rejects.toMatchObject({
      code: 'LOCKSTEP_BAD_OPTION',
      message: expect.stringMatching(told),
    })
  })
})

test.each<[unknown, unknown, boolean]>([
  [{ a: 1, b: 2 }, { a: 1 }, true],
  [{ a: 1 }, { a: 1, b: undefined }, true],
  [{ a: 1 }, { b: undefined, a: 2 }, false],
  [{ a: { b: [{ c: 1, d: 2 }] } }, { a: { b: [{ c: 1 }] } }, true],
  [[1, 2], [1], false],
  [[1], { 0: 1 }, false],
  [null, {}, false],
  [{}, null, false],
  ['1', 1, false],
  [Number.NaN, Number.NaN, true],
  [new Date(1), new Date(1), true],
  [1, new Date(1), false],
  [Object.create({ a: 1 }), { a: 1 }, false],
])('%o has all of %o: %s', (actual, expected, does) => {
  expect(matches(actual, expected)).toBe(does)
})

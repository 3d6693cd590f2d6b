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
    { id: 'a', payload: { status: 'created', items: [1, 2] }, score: 1, performIn: AT, lane: 3 },
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
    },
    { id: 'a', payload: { status: 'paid' }, score: 2, performIn: AT, lane: 3, headers: { by: 'web' } },
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

import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { JobError } from '../../src/errors.ts'
import {
  type Claimer,
  openStore,
  type StoreEnvironment,
  type TestQueue,
} from '../support/store-environment.ts'

const RUNS = 150

let env: StoreEnvironment
let testQueue: TestQueue
let claimer: Claimer

beforeAll(async () => {
  env = await openStore()
  testQueue = await env.queue()
  claimer = await testQueue.claimer()
})
afterAll(() => env?.close())

/** Returns the payload as a handler gets it. */
async function handedOver(payload: unknown): Promise<unknown> {
  await testQueue.push({ id: 'a', payload })
  const round = await claimer.take()
  await claimer.complete(round)
  expect(round.payloads).toHaveLength(1)
  return round.payloads[0]
}

/** JSON has one zero, and jsonb sorts keys, so values are compared as they are when read back. */
const value = (payload: unknown) => JSON.parse(JSON.stringify(payload))

const storable = fc.jsonValue({ stringUnit: 'binary', maxDepth: 4 }).filter((one) => !unstorable(one))

const unstorable = (payload: unknown) =>
  texts(payload).some((text) => text.includes('\0') || !text.isWellFormed())

function texts(payload: unknown): string[] {
  if (typeof payload === 'string') return [payload]
  if (typeof payload !== 'object' || payload === null) return []
  return [...Object.keys(payload), ...Object.values(payload).flatMap(texts)]
}

test('R1 whatever JSON is pushed is handed over', async () => {
  await fc.assert(
    fc.asyncProperty(storable, async (payload) => {
      expect(await handedOver(payload)).toEqual(value(payload))
    }),
    { numRuns: RUNS },
  )
})

test('R1 text of any code units is handed over, or rejected by index and field', async () => {
  const units = fc.oneof(
    fc.constantFrom(0x5c, 0x75, 0x30, 0x22, 0x00, 0xd83d, 0xde00, 0xdfff, 0x64, 0x38),
    fc.nat({ max: 0xffff }),
  )
  const text = fc.array(units, { maxLength: 12 }).map((codes) => String.fromCharCode(...codes))
  const payloads = fc.oneof(text, fc.dictionary(text, text, { maxKeys: 2 }), fc.array(text, { maxLength: 2 }))
  await fc.assert(
    fc.asyncProperty(payloads, async (payload) => {
      const result = await handedOver(payload).catch((error) => error)
      if (unstorable(payload)) {
        expect(result).toBeInstanceOf(JobError)
        expect(result).toMatchObject({ index: 0, field: 'payload' })
      } else {
        expect(result).toEqual(payload)
      }
    }),
    { numRuns: 2 * RUNS },
  )
})

test('R2 payloads are equal when their values are', async () => {
  const shuffled = (payload: unknown): unknown => {
    if (Array.isArray(payload)) return payload.map(shuffled)
    if (typeof payload !== 'object' || payload === null) return payload
    const entries = Object.entries(payload).map(([key, inner]) => [key, shuffled(inner)])
    return Object.fromEntries(entries.toReversed())
  }
  const same = (a: unknown, b: unknown) => {
    try {
      expect(value(a)).toEqual(value(b))
      return true
    } catch {
      return false
    }
  }
  await fc.assert(
    fc.asyncProperty(storable, storable, async (one, other) => {
      await testQueue.push(
        { id: 'b', payload: one },
        { id: 'b', payload: other },
        { id: 'b', payload: shuffled(one) },
      )
      const round = await claimer.take()
      await claimer.complete(round)
      expect(round.payloads).toHaveLength(same(one, other) ? 1 : 2)
    }),
    { numRuns: RUNS },
  )
})

test('R1 any id of up to 1,024 bytes is that id', async () => {
  const ids = fc.string({ unit: 'binary', minLength: 1, maxLength: 256 }).filter((id) => !id.includes('\0'))
  await fc.assert(
    fc.asyncProperty(ids, async (id) => {
      await testQueue.push({ id })
      const round = await claimer.take()
      expect(round.id).toBe(id)
      expect(await claimer.complete(round)).toEqual([])
    }),
    { numRuns: RUNS },
  )
})

test('R9 any scores are handed over in their order', async () => {
  const scores = fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }), {
    minLength: 1,
    maxLength: 20,
  })
  await fc.assert(
    fc.asyncProperty(scores, async (given) => {
      await testQueue.push(...given.map((score, payload) => ({ id: 'c', payload, score })))
      const round = await claimer.take()
      await claimer.complete(round)
      const order = given
        .map((score, payload) => ({ score: score + 0, payload }))
        .sort((a, b) => a.score - b.score)
      expect(round.scores).toEqual(order.map(({ score }) => score))
      expect(round.payloads).toEqual(order.map(({ payload }) => payload))
    }),
    { numRuns: RUNS },
  )
})

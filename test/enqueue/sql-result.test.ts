import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { carryingDefinition } from '../../src/postgres/definitions.ts'
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

/** What `lockstep.enqueue` returns for the id `a`. */
async function push(payload: unknown, score: number | null = null): Promise<unknown> {
  const [row] = await env.query<{ enqueue: unknown }>('SELECT lockstep.enqueue($1, $2, $3, $4)', [
    testQueue.queue.name,
    'a',
    JSON.stringify(payload),
    score,
  ])
  return row!.enqueue
}

describe('R1 enqueue returns whether it made a new job of the id', () => {
  test('true for the first payload, false for others, whether they merge or not', async () => {
    expect(await push('v', 1)).toBe(true)
    // Merges with the payload that the row carries; then the row is changed by ON CONFLICT; then it is as it should be.
    expect(await push('v', 1)).toBe(false)
    expect(await push('w', 2)).toBe(false)
    expect(await push('x', 3)).toBe(false)
    expect(await push('x', 2.5)).toBe(false)
    expect(await testQueue.set('a')).toEqual(['v[1]', 'w[2]', 'x[2.5]'])
  })

  test('false while a job is in work, true once it has ended', async () => {
    const claimer = await testQueue.claimer()
    expect(await push('v')).toBe(true)
    const round = await claimer.take()
    expect([await push('w'), await push('w'), await push('x')]).toEqual([false, false, false])
    await claimer.complete(round)
    expect(await push('y')).toBe(false)
    await claimer.complete(await claimer.take())
    expect(await push('v')).toBe(true)
  })

  test('true for one of many that push at once', async () => {
    const results = await Promise.all(Array.from({ length: 8 }, (_, i) => push(i)))
    expect(results.filter(Boolean)).toEqual([true])
    expect(await testQueue.countPayloads('a')).toBe(8)
  })

  test('true where its own transaction has rolled the job back', async () => {
    const tx = await env.transaction()
    const text = 'SELECT lockstep.enqueue($1, $2) AS made'
    const made = async () => (await tx.query(text, [testQueue.queue.name, 'a'])).rows[0].made
    expect([await made(), await made()]).toEqual([true, false])
    await tx.query('ROLLBACK')
    expect(await made()).toBe(true)
    await env.endSessions()
  })

  test('also where rows carry no payload yet', async () => {
    const carry = async (value: boolean) => env.query(await carryingDefinition('lockstep', value))
    await carry(false)
    try {
      expect([await push('v'), await push('v'), await push('w')]).toEqual([true, false, false])
      expect((await testQueue.set('a')).length).toBe(2)
    } finally {
      await carry(true)
    }
  })
})

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { removeExpired } from '../../src/store/expiry.ts'
import {
  openStore,
  type StoreEnvironment,
  shown,
  type TestQueue,
  through,
} from '../support/store-environment.ts'
import { Gate } from './gate.ts'

const long = Date.now() + 3_600_000

let env: StoreEnvironment
let gate: Gate
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
  gate = new Gate(env)
  await gate.install()
  await gate.gateSweeps()
})
beforeEach(async () => {
  testQueue = await env.queue()
})
afterEach(() => env.endSessions())
afterAll(() => env?.close())

/** How many payloads and jobs a sweep removes, with `act` between the snapshot with which it locks and its first lock. */
async function sweepDuring(act: () => Promise<void>): Promise<[number, number]> {
  const all = await gate.during((session) => removeExpired(through(session, env.database), [], 1_000), act)
  const mine = all.find(({ queueId }) => queueId === testQueue.queueId)!
  return [mine.payloads, mine.jobs]
}

describe('P3 a sweep whose snapshot is older than its locks', () => {
  test('spares a payload that was prolonged in between', async () => {
    await testQueue.push({ id: 'a', payload: 'first', score: 0, expiresIn: long })
    await testQueue.push({ id: 'a', payload: 'v', score: 1, expiresIn: long })
    await testQueue.letExpire('a')
    const removed = await sweepDuring(async () => {
      await testQueue.push({ id: 'a', payload: 'v', score: 5, expiresIn: long })
    })
    expect(removed).toEqual([1, 0])
    const claimer = await testQueue.claimer()
    expect(shown([await claimer.take()])).toEqual(['a: v[5]'])
  })

  test('spares a job into which something was pushed in between', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1, expiresIn: long })
    await testQueue.letExpire('a')
    const removed = await sweepDuring(async () => {
      await testQueue.push({ id: 'a', payload: 'v', score: 5 })
    })
    expect(removed).toEqual([1, 0])
    const claimer = await testQueue.claimer()
    expect(shown([await claimer.take()])).toEqual(['a: v[5]'])
  })

  test('spares what was claimed in between', async () => {
    await testQueue.push(
      { id: 'a', payload: 'v', score: 1, expiresIn: long },
      { id: 'a', payload: 'w', score: 2 },
    )
    await testQueue.letExpire('a')
    const claimer = await testQueue.claimer()
    const removed = await sweepDuring(async () => {
      expect((await claimer.take()).expired).toBe(1)
    })
    expect(removed).toEqual([0, 0])
    expect(await testQueue.countPayloads()).toBe(2)
  })

  test('spares a job that was performed and pushed anew in between', async () => {
    await testQueue.push({ id: 'a', payload: 'v', score: 1, expiresIn: long })
    await testQueue.letExpire('a')
    const claimer = await testQueue.claimer()
    const removed = await sweepDuring(async () => {
      await claimer.complete(await claimer.take())
      await testQueue.push({ id: 'a', payload: 'v', score: 5, expiresIn: long })
    })
    expect(removed).toEqual([0, 0])
    expect(shown([await claimer.take()])).toEqual(['a: v[5]'])
  })
})

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { newName } from '../../src/store/handler-transaction.ts'
import { settleThrough } from '../../src/store/settle.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterEach(() => env.endSessions())
afterAll(() => env?.close())

test('P3: a round ends only in the transaction that has its name', async () => {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  await testQueue.push({ id: 'a' })
  const round = await claimer.take()
  const tx = await env.transaction()
  const [name, other] = [newName(), newName()]
  expect(name).not.toBe(other)
  const on = {
    casts: 'none' as const,
    run: async (text: string, values: readonly unknown[]) => (await tx.query(text, [...values])).rows,
  }
  const holder = { processId: claimer.processId, queueId: testQueue.queueId }
  const settle = (round_: string) =>
    settleThrough(env.database, on, holder, [round], [], { round: round_, settings: {} })
  expect(await settle(name)).toBeUndefined()
  await tx.query(`SET LOCAL lockstep.round = '${other}'`)
  expect(await settle(name)).toBeUndefined()
  expect(await settle(other)).toEqual([])
  await tx.query('COMMIT')
  expect(await testQueue.findJob('a')).toBeUndefined()
})

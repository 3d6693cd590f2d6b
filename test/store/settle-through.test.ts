import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Round } from '../../src/store/claim.ts'
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

test.each(['none', 'json', 'all'] as const)(
  'R18 P3: a round ends with its result through drivers that cast: %s',
  async (casts) => {
    const testQueue = await env.queue()
    const claimer = await testQueue.claimer()
    for (const id of ['a', 'b', 'c']) await testQueue.push({ id })
    const rounds = [await claimer.take(), await claimer.take(), await claimer.take()]
    const [a, b, c] = rounds as [Round, Round, Round]
    const tx = await env.transaction()
    const round = newName()
    await tx.query(`SET LOCAL lockstep.round = '${round}'`)
    const on = {
      casts,
      run: async (text: string, values: readonly unknown[]) => (await tx.query(text, [...values])).rows,
    }
    const kept = (json: string) => ({ json, seconds: 60 })
    const completed = [
      { ...a, kept: kept('{"of": "a\\"}"}') },
      { ...b, kept: kept('null') },
    ]
    const dropped = { round: c, end: 'drop', error: null, retryIn: null } as const
    const holder = { processId: claimer.processId, queueId: testQueue.queueId }
    const settled = await settleThrough(env.database, on, holder, completed, [dropped], {
      round,
      settings: {},
    })
    expect(settled).toEqual([])
    await tx.query('COMMIT')
    const { rows } = await env.database.pool.query(
      `SELECT job_id, result FROM ${env.database.prefix}.results WHERE queue_id = $1 ORDER BY job_id`,
      [testQueue.queueId],
    )
    expect(rows).toEqual([
      { job_id: 'a', result: { of: 'a"}' } },
      { job_id: 'b', result: null },
    ])
    expect(await testQueue.findJob('c')).toBeUndefined()
  },
)

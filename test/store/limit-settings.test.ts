import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Limits } from '../../src/limits.ts'
import { noteHeld } from '../../src/store/limits.ts'
import { replaceSetting } from '../../src/store/queue-setting.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
afterEach(() => env.endSessions())

const setLimits = ({ queueId }: TestQueue, limits: Limits) =>
  replaceSetting(env.database, 'limits', [{ queueId, value: limits }])

test.each([
  '[]',
  '5',
  '{"concurrency": "x"}',
  '{"concurrency": "5"}',
  '{"concurrency": 0}',
  '{"concurrency": 1.5}',
  '{"concurrency": 1e12}',
  '{"most": 5}',
  '{"rate": {"jobs": 5}}',
  '{"rate": {"jobs": 5, "per": 0}}',
  '{"rate": {"jobs": 5, "per": "60"}}',
  '{"rate": {"jobs": 5, "per": 1e12}}',
  '{"rate": 5}',
  '{"tenant": {"tenant": {}}}',
  '{"tenant": {"concurrency": -1}}',
  '{"tenant": 1}',
])('limits that no claim could go by are refused, whoever sets them: %s', async (limits) => {
  const { queueId } = await env.queue()
  const setting = env.query('SELECT lockstep.set_limits($1, $2::jsonb)', [queueId, limits])
  await expect(setting).rejects.toThrow('these are no limits')
})

test('those of definitions are not, and none', async () => {
  const { queueId } = await env.queue()
  const all: Limits = {
    concurrency: 5,
    rate: { jobs: 1, per: 0.001 },
    tenant: { concurrency: 1, rate: { jobs: 9, per: 60 } },
  }
  for (const limits of [all, { tenant: { concurrency: 1 } }, null]) {
    const text = limits && JSON.stringify(limits)
    const rows = await env.query('SELECT lockstep.set_limits($1, $2::jsonb) AS set', [queueId, text])
    expect(rows).toEqual([{ set: true }])
  }
})

test('what a claim takes that began before the first limit, and is committed after it, is counted', async () => {
  const testQueue = await env.queue({ batchSize: 10 })
  await testQueue.push({ id: 'a', payload: 1 }, { id: 'b', payload: 1 })
  const claimer = await testQueue.claimer()
  const session = await env.transaction()
  const { rounds } = await claimer.on(session).claim()
  expect(rounds).toHaveLength(2)
  await env.query('SELECT lockstep.set_limits($1, $2)', [testQueue.queueId, { concurrency: 2 }])
  await session.query('COMMIT')
  await noteHeld(env.database, testQueue.queueId)
  await testQueue.push({ id: 'c', payload: 1 })
  expect((await claimer.claim()).rounds).toEqual([])
  const used = await env.query('SELECT used FROM lockstep.limited WHERE queue = $1', [testQueue.queue.name])
  expect(used).toEqual([{ used: 2 }])
})

test('a start counts for a tenth longer than a short window: its handler begins a moment later', async () => {
  const testQueue = await env.queue({ batchSize: 10 })
  await setLimits(testQueue, { rate: { jobs: 1, per: 10 } })
  await testQueue.push({ id: 'a', payload: 1 }, { id: 'b', payload: 1 })
  const claimer = await testQueue.claimer()
  expect((await claimer.claim()).rounds).toHaveLength(1)
  await setLimits(testQueue, { rate: { jobs: 1, per: 1 } })
  const age = (seconds: number) =>
    env.query(`UPDATE lockstep.starts SET at = clock_timestamp() - $2 * interval '1 s' WHERE queue_id = $1`, [
      testQueue.queueId,
      seconds,
    ])
  await age(1.02)
  expect((await claimer.claim()).rounds).toEqual([])
  await age(1.1)
  expect((await claimer.claim()).rounds).toHaveLength(1)
})

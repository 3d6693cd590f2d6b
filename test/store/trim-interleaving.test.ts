import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Limits } from '../../src/limits.ts'
import { trimLimits } from '../../src/store/limits.ts'
import { replaceSetting } from '../../src/store/queue-setting.ts'
import { openStore, type StoreEnvironment, type TestQueue, through } from '../support/store-environment.ts'
import { Gate } from './gate.ts'

/** Rounds begin in another hundredth of this each time, in seconds. */
const PER = 0.1

let env: StoreEnvironment
let gate: Gate

beforeAll(async () => {
  env = await openStore()
  gate = new Gate(env)
  await gate.install()
  await gate.gateTrims()
})
afterAll(() => env?.close())
afterEach(() => env.endSessions())

const setLimits = ({ queueId }: TestQueue, value: Limits | undefined) =>
  replaceSetting(env.database, 'limits', [{ queueId, value }])

const totals = async ({ queueId }: TestQueue) => {
  const rows = await env.query<{ total: number }>(
    'SELECT total FROM lockstep.starts WHERE queue_id = $1 ORDER BY total',
    [queueId],
  )
  return rows.map(({ total }) => total)
}

/** A queue in which two rounds have begun, two and four hours ago, and a third job waits. */
async function begun(limits: Limits): Promise<TestQueue> {
  const testQueue = await env.queue({ batchSize: 1, limits })
  await setLimits(testQueue, limits)
  await testQueue.push({ id: 'a' }, { id: 'b' }, { id: 'c' })
  const claimer = await testQueue.claimer()
  for (let n = 0; n < 2; n += 1) {
    await claimer.claim()
    await env.query(`UPDATE lockstep.starts SET at = at - interval '2 h' WHERE queue_id = $1`, [
      testQueue.queueId,
    ])
  }
  return testQueue
}

const trimming = (act: () => Promise<void>) =>
  gate.during((session) => trimLimits(through(session, env.database)), act)

describe('R9 while starts are trimmed', () => {
  test('claims go on, and what they note counts on from what is deleted', async () => {
    const testQueue = await begun({ rate: { jobs: 9, per: PER } })
    expect(await totals(testQueue)).toEqual([1, 2])
    const trimmed = await trimming(async () => {
      expect((await (await testQueue.claimer()).claim()).rounds).toHaveLength(1)
      expect(await totals(testQueue)).toEqual([1, 2, 3])
    })
    expect(trimmed).toBe(2)
    expect(await totals(testQueue)).toEqual([3])
    const [row] = await env.query(
      `SELECT lockstep.started($1, '', $2::jsonb, clock_timestamp() - $3 * interval '1 s') AS started`,
      [testQueue.queueId, { jobs: 9, per: PER }, PER / 2],
    )
    expect(row).toEqual({ started: 1 })
  })

  test('and limits change, nothing is deleted that may count by the new ones', async () => {
    const testQueue = await begun({ rate: { jobs: 9, per: PER } })
    await trimming(async () => {
      await setLimits(testQueue, { rate: { jobs: 9, per: 86_400 } })
    })
    expect(await totals(testQueue)).toEqual([1, 2])
  })
})

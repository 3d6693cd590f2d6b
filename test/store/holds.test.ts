import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { noteHeld } from '../../src/store/limits.ts'
import { replaceSetting } from '../../src/store/queue-setting.ts'
import {
  type Claimer,
  openStore,
  type StoreEnvironment,
  type TestQueue,
} from '../support/store-environment.ts'

const PAST = 1_536_323_288_000
const BATCH = 50
/** More than one checkpoint ever lies before the next, if less is held than that. */
const ROUNDS = 1_200

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

async function limited(jobs: number): Promise<TestQueue> {
  const limits = { concurrency: BATCH + 3, tenant: { concurrency: BATCH + 2 } }
  const testQueue = await env.queue({ batchSize: BATCH, limits })
  await replaceSetting(env.database, 'limits', [
    { queueId: testQueue.queueId, value: testQueue.queue.limits },
  ])
  const pushes = Array.from({ length: jobs }, (_, n) => ({
    id: `${n}`,
    tenant: 'a',
    lane: 0,
    performIn: PAST + n,
  }))
  await testQueue.push(...pushes)
  return testQueue
}

interface Noted {
  readonly number: number
  readonly checkpoint: number
  readonly id: string
}

/** In the order in which they were noted. */
const noted = ({ queueId }: TestQueue) =>
  env.query<Noted>(
    'SELECT number, checkpoint, job_id AS id FROM lockstep.holds WHERE queue_id = $1 ORDER BY number',
    [queueId],
  )

/** Claims and completes all jobs, each call on the next session, which has forgotten everything, as behind a pooler. */
async function performOn(sessions: pg.Client[], claimer: Claimer, check: () => Promise<void>): Promise<void> {
  for (let n = 0; (await claimer.testQueue.countJobs()) > 0; n += 1) {
    const session = sessions[n % sessions.length]!
    await session.query('DISCARD ALL')
    const { rounds } = await claimer.on(session).claim({ batchSize: 5 })
    await check()
    await session.query('DISCARD ALL')
    await claimer.on(session).complete(...rounds)
  }
}

describe('R9 what is held', () => {
  test('for long counts after hundreds of other rounds, and a claim reads from a checkpoint near the end on', async () => {
    const testQueue = await limited(ROUNDS + 9)
    const [one, other] = [await testQueue.claimer(), await testQueue.claimer()]
    const held = [await one.take(), await other.take()]
    const [first] = await noted(testQueue)
    for (let n = 0; n < ROUNDS; n += BATCH) {
      const { rounds } = await one.claim()
      expect(rounds).toHaveLength(BATCH)
      await one.complete(...rounds)
      const rows = await noted(testQueue)
      const { number, checkpoint } = rows.at(-1)!
      expect(number - checkpoint).toBeLessThan(500 + 2 * BATCH)
      expect(rows[0]!.number).toBeGreaterThanOrEqual(checkpoint)
    }
    expect((await noted(testQueue)).at(-1)!.checkpoint).toBeGreaterThan(first!.checkpoint)
    const ids = (await noted(testQueue)).map(({ id }) => id)
    for (const { id } of held) expect(ids.filter((one) => one === id)).toEqual([id])
    await one.complete(held[0]!)
    expect((await one.claim({ batchSize: BATCH })).rounds).toHaveLength(7)
  })

  test('is never more than the limits say, through whichever sessions claims go', async () => {
    const testQueue = await env.queue({ limits: { concurrency: 7 } })
    await replaceSetting(env.database, 'limits', [
      { queueId: testQueue.queueId, value: testQueue.queue.limits },
    ])
    await testQueue.push(...Array.from({ length: 300 }, (_, n) => ({ id: `${n}` })))
    const check = async () => {
      const [row] = await env.query<{ count: number }>(
        'SELECT count(*) FROM lockstep.jobs WHERE queue_id = $1 AND claimed_by IS NOT NULL',
        [testQueue.queueId],
      )
      expect(row!.count).toBeLessThanOrEqual(7)
    }
    const perform = async () => {
      const sessions = [await env.session(), await env.session(), await env.session()]
      await performOn(sessions, await testQueue.claimer(), check)
    }
    await Promise.all([perform(), perform(), perform()])
  })

  test('is noted again under the next numbers, once', async () => {
    const testQueue = await limited(9)
    const claimer = await testQueue.claimer()
    await claimer.claim({ batchSize: 2 })
    const before = await noted(testQueue)
    await env.query(`DELETE FROM lockstep.holds WHERE queue_id = $1 AND job_id = '0'`, [testQueue.queueId])
    await noteHeld(env.database, testQueue.queueId)
    await noteHeld(env.database, testQueue.queueId)
    expect((await noted(testQueue)).map(({ number, id }) => [number - before[0]!.number, id])).toEqual([
      [1, '1'],
      [2, '0'],
    ])
  })
})

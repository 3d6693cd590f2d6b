import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { requeueDead } from '../../src/store/morgue.ts'
import {
  type Claimer,
  openStore,
  type StoreEnvironment,
  shown,
  type TestQueue,
} from '../support/store-environment.ts'

let env: StoreEnvironment
let testQueue: TestQueue
let claimer: Claimer

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
beforeEach(() => use({}))
afterEach(() => env.endSessions())

async function use(options: { maxPayloads?: number }): Promise<void> {
  testQueue = await env.queue({ batchSize: 5, ...options })
  claimer = await testQueue.claimer()
}

/** Whether the row of the job carries a payload, and says that there are others. */
async function rowOf(id: string) {
  const [row] = await env.query<{ carries: boolean; has_payloads: boolean }>(
    'SELECT payload IS NOT NULL AS carries, has_payloads FROM lockstep.jobs WHERE queue_id = $1 AND id = $2',
    [testQueue.queueId, id],
  )
  return row
}

const rowsApart = async () =>
  (await env.query('SELECT FROM lockstep.payloads WHERE queue_id = $1', [testQueue.queueId])).length

/** Takes the round, completes it, and shows it. */
async function performed(): Promise<string> {
  const round = await claimer.take()
  await claimer.complete(round)
  return shown([round])[0]!
}

const v = (score: number) => ({ id: 'a', payload: 'v', score })
const w = (score: number) => ({ id: 'a', payload: 'w', score })

describe('a job’s row carries the payload that it was created with', () => {
  test('whatever its size, in calls of one and of many', async () => {
    const large = 'x'.repeat(100_000)
    await testQueue.push({ id: 'one', payload: 'v' })
    await testQueue.push({ id: 'many', payload: 'v' }, { id: 'large', payload: large })
    expect(await rowsApart()).toBe(0)
    for (const id of ['one', 'many', 'large'])
      expect(await rowOf(id)).toEqual({ carries: true, has_payloads: false })
    const { rounds } = await claimer.claim()
    expect(rounds.map(({ id, payloads }) => [id, payloads])).toEqual([
      ['one', ['v']],
      ['large', [large]],
      ['many', ['v']],
    ])
    expect(await claimer.complete(...rounds)).toEqual([])
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('and what is pushed later, or a second time in the call, lies beside it', async () => {
    await testQueue.push(v(2), w(1))
    expect(await rowOf('a')).toEqual({ carries: true, has_payloads: true })
    await testQueue.push({ id: 'a', payload: 'x', score: 0 })
    expect(await performed()).toBe('a: x[0] w[1] v[2]')
    expect([await testQueue.countJobs(), await testQueue.countPayloads()]).toEqual([0, 0])
  })

  test('R2 and a push that equals it changes nothing', async () => {
    await testQueue.push(v(1))
    await testQueue.push(v(1))
    await testQueue.push(v(2), v(3))
    expect(await rowsApart()).toBe(0)
    expect(await performed()).toBe('a: v[1]')
  })

  test('P2 and it is the first of equal scores', async () => {
    await testQueue.push(v(1))
    await testQueue.push(w(1))
    expect(await performed()).toBe('a: v[1] w[1]')
  })

  test('and there are large ones beside small ones in one claim', async () => {
    const large = { n: Array.from({ length: 5_000 }, (_, n) => n) }
    await testQueue.push({ id: 'a', payload: large, performIn: 0 }, { id: 'b', payload: 'v', performIn: 1 })
    await testQueue.push({ id: 'c', payload: 'v', performIn: 2, score: 2 })
    await testQueue.push({ id: 'c', payload: 'w', score: 1 })
    const { rounds } = await claimer.claim()
    expect(rounds.map(({ id, payloads }) => [id, payloads])).toEqual([
      ['a', [large]],
      ['b', ['v']],
      ['c', ['w', 'v']],
    ])
  })
})

describe('P5 an equal push while it is in work', () => {
  test('comes in the next round', async () => {
    await testQueue.push(v(1))
    const round = await claimer.take()
    await testQueue.push(v(1))
    await claimer.complete(round)
    expect(await rowOf('a')).toEqual({ carries: false, has_payloads: true })
    expect(await performed()).toBe('a: v[1]')
    expect(await testQueue.countJobs()).toBe(0)
  })

  test.each(['released', 'failed'])('R4 unites with it when the round was %s', async (end) => {
    await testQueue.push(v(3))
    const round = await claimer.take()
    await testQueue.push(v(2))
    if (end === 'released') await claimer.release(round)
    else await claimer.fail([round])
    expect(await performed()).toBe('a: v[2]')
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('R10 and after the process that had it is gone', async () => {
    await testQueue.push(v(3))
    const gone = await testQueue.claimer()
    await gone.take()
    await testQueue.push(v(3), w(1))
    await env.expire(gone.processId)
    expect(await performed()).toBe('a: w[1] v[3]')
    expect(await testQueue.countPayloads()).toBe(0)
  })

  test('R7 and lives when it dies', async () => {
    await testQueue.push(v(1))
    const round = await claimer.take()
    await testQueue.push(v(1))
    await claimer.fail([round], null)
    expect(await testQueue.dead('a')).toMatchObject([{ payload: 'v', score: 1 }])
    expect(await performed()).toBe('a: v[1]')
    expect(await testQueue.countJobs()).toBe(0)
  })
})

describe('R7 a death', () => {
  test('of the carried one leaves what was pushed later', async () => {
    await testQueue.push(v(1))
    await testQueue.push(w(2))
    await claimer.fail([await claimer.take()], null)
    expect(await testQueue.dead('a')).toMatchObject([{ payload: 'v', score: 1 }])
    expect(await performed()).toBe('a: w[2]')
  })

  test('of what was pushed later leaves the carried one', async () => {
    await testQueue.push(v(2))
    await testQueue.push(w(1))
    await claimer.fail([await claimer.take()], null)
    expect(await testQueue.dead('a')).toMatchObject([{ payload: 'w', score: 1 }])
    expect(await rowOf('a')).toMatchObject({ carries: true })
    expect(await performed()).toBe('a: v[2]')
  })

  test('of a lower equal one takes the carried one along', async () => {
    await testQueue.push(v(3))
    await testQueue.push(v(1))
    await claimer.fail([await claimer.take()], null)
    expect(await testQueue.dead('a')).toMatchObject([{ payload: 'v', score: 1 }])
    expect([await testQueue.countJobs(), await testQueue.countPayloads()]).toEqual([0, 0])
  })
})

describe('R9 a cut', () => {
  beforeEach(() => use({ maxPayloads: 1 }))

  test('takes the carried one, and then the others', async () => {
    await testQueue.push(v(1))
    await testQueue.push(w(2))
    expect([await performed(), await performed()]).toEqual(['a: v[1]', 'a: w[2]'])
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('spares the carried one', async () => {
    await testQueue.push(v(2))
    await testQueue.push(w(1))
    expect(await performed()).toBe('a: w[1]')
    expect(await rowOf('a')).toMatchObject({ carries: true })
    expect(await performed()).toBe('a: v[2]')
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('takes the carried one along with a lower equal one', async () => {
    await testQueue.push(v(3))
    await testQueue.push(v(1))
    await testQueue.push(w(2))
    expect([await performed(), await performed()]).toEqual(['a: v[1]', 'a: w[2]'])
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('P8 keeps the order of jobs with one and with several payloads', async () => {
    await testQueue.push(
      { id: 'b', payload: 'v', score: 1, performIn: 0 },
      { id: 'b', payload: 'w', score: 2 },
    )
    await testQueue.push({ id: 'a', payload: 'v', score: 1, performIn: 1 })
    const { rounds } = await claimer.claim()
    expect(shown(rounds)).toEqual(['b: v[1]', 'a: v[1]'])
  })
})

describe('R11 R5 administration', () => {
  test('kills and requeues the carried one with the others', async () => {
    await testQueue.push(v(1))
    await testQueue.push(w(2))
    await env.lockstep.kill(testQueue.queue, {})
    expect(await testQueue.dead('a')).toMatchObject([{ payload: 'v' }, { payload: 'w' }])
    await env.lockstep.requeue(testQueue.queue, {})
    expect(await performed()).toBe('a: v[1] w[2]')
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('kills the next round, and leaves the carried one in work alone', async () => {
    await testQueue.push(v(1))
    const round = await claimer.take()
    await testQueue.push(w(2))
    await env.lockstep.kill(testQueue.queue, {})
    expect(await testQueue.dead('a')).toMatchObject([{ payload: 'w' }])
    await claimer.release(round)
    expect(await performed()).toBe('a: v[1]')
  })

  test('a requeue beside it is handed over with it', async () => {
    await testQueue.push(w(2))
    await env.lockstep.kill(testQueue.queue, {})
    await testQueue.push(v(1))
    await env.lockstep.requeue(testQueue.queue, {})
    expect(await performed()).toBe('a: v[1] w[2]')
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('P3 a requeue of what is gone by now leaves the job that waits', async () => {
    await testQueue.push(v(1))
    const tx = await env.transaction()
    const keys = [{ id: 'a', digest: Buffer.alloc(32) }]
    expect(await requeueDead(env.database, tx, testQueue.queueId, keys)).toBe(0)
    await tx.query('COMMIT')
    expect(await performed()).toBe('a: v[1]')
  })
})

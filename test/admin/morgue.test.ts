import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type DeadFilter, OptionError, type Progress } from '../../src/index.ts'
import {
  openStore,
  pidOf,
  type StoreEnvironment,
  type TestQueue,
  until,
  untilBlocked,
} from '../support/store-environment.ts'
import { bury, FUTURE } from './bury.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterEach(() => env.endSessions())
afterAll(() => env?.close())

const numbered = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ id: String(n).padStart(4, '0'), payload: n }))

async function deadIn(testQueue: TestQueue, filter: DeadFilter = {}): Promise<string[]> {
  const { items } = await env.lockstep.findDead(testQueue.queue, { ...filter, by: 'id', limit: 1_000 })
  return items.map(({ id }) => id)
}

describe('R5 requeue', () => {
  test('of what was killed together: those of one score come as they were pushed', async () => {
    const testQueue = await env.queue()
    const payloads = ['v', 'w', 'x', 'y', 'z', 1, 2, 3]
    await testQueue.push(...payloads.map((payload) => ({ id: 'a', payload, score: 1 })))
    await env.lockstep.kill(testQueue.queue, { ids: ['a'] })
    await env.lockstep.requeue(testQueue.queue, {})
    expect((await (await testQueue.claimer()).take()).payloads).toEqual(payloads)
  })

  test('into a waiting job: the sets unite, it is due now and has never failed', async () => {
    const testQueue = await env.queue()
    await bury(testQueue, { id: 'a', payload: 'v', score: 2 }, { id: 'a', payload: 'w', score: 9 })
    await testQueue.push(
      { id: 'a', payload: 'v', score: 5 },
      { id: 'a', payload: 'w', score: 4 },
      { id: 'a', payload: 'x', score: 1 },
    )
    const claimer = await testQueue.claimer()
    await claimer.fail([await claimer.take()], 3_600, 'broken')

    expect(await env.lockstep.requeue(testQueue.queue, {})).toEqual({ done: 2, total: 2 })
    const job = await testQueue.job('a')
    expect(job).toMatchObject({ retry_count: -1, error: 'broken', claimed_by: null })
    expect(Math.abs(job.performIn - Date.now())).toBeLessThan(60_000)
    expect(await testQueue.set('a')).toEqual(['x[1]', 'v[2]', 'w[4]'])
    expect(await deadIn(testQueue)).toEqual([])
    expect((await claimer.take()).payloads).toEqual(['x', 'v', 'w'])
  })

  test('into a job in work: it comes with the next round, at once, and this round is not touched', async () => {
    const testQueue = await env.queue()
    await bury(testQueue, { id: 'a', payload: 'v', score: 2 })
    await testQueue.push({ id: 'a', payload: 'v', score: 5 })
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    await testQueue.push({ id: 'a', payload: 'later', score: 7, performIn: FUTURE })

    await env.lockstep.requeue(testQueue.queue, {})
    const job = await testQueue.job('a')
    expect(job).toMatchObject({ claimed_by: claimer.processId, fence: round.fence })
    expect(Math.abs(job.nextPerformIn! - Date.now())).toBeLessThan(60_000)
    await claimer.complete(round)
    const next = await claimer.take()
    expect([next.payloads, next.scores, next.retryCount]).toEqual([['v', 'later'], [2, 7], -1])
  })

  test('where there is no job: one is made, due now', async () => {
    const testQueue = await env.queue({ shards: 7 })
    await bury(testQueue, { id: 'a', payload: 'v', score: 2 })
    await env.lockstep.requeue(testQueue.queue, { ids: ['a'] })
    expect(await testQueue.job('a')).toMatchObject({ retry_count: -1, lane: 0, crashes: 0 })
    expect(await testQueue.set('a')).toEqual(['v[2]'])
  })

  test('into what a dead process left: it waits, its crash counted', async () => {
    const testQueue = await env.queue()
    await bury(testQueue, { id: 'a', payload: 'v', score: 2 })
    await testQueue.push({ id: 'a', payload: 'w', score: 5 })
    const dead = await testQueue.claimer()
    await dead.take()
    await env.expire(dead.processId)
    await env.lockstep.requeue(testQueue.queue, {})
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: null, crashes: 1, retry_count: -1 })
    expect((await (await testQueue.claimer()).take()).payloads).toEqual(['v', 'w'])
  })

  test('brings back the error: the latest one, until the next success, where the job has none', async () => {
    const testQueue = await env.queue({ batchSize: 2 })
    const claimer = await testQueue.claimer()
    for (const [payload, error] of [
      ['v', 'first'],
      ['w', 'second'],
    ] as const) {
      await testQueue.push({ id: 'a', payload, score: 1 }, { id: 'b', payload, score: 1 })
      await claimer.fail((await claimer.claim()).rounds, null, error)
    }
    await env.lockstep.requeue(testQueue.queue, { ids: ['a'] })
    expect(await testQueue.job('a')).toMatchObject({ error: 'second', retry_count: -1 })

    await testQueue.push({ id: 'b', payload: 'x', score: 1 })
    const [a, b] = (await claimer.claim()).rounds
    expect([a, b]).toMatchObject([
      { id: 'a', error: 'second' },
      { id: 'b', error: null },
    ])
    await env.lockstep.requeue(testQueue.queue, { ids: ['b'] })
    expect(await testQueue.job('b')).toMatchObject({ error: null })
    await claimer.fail([b!], 3_600, 'third')
    expect(await testQueue.job('b')).toMatchObject({ error: 'third' })
    await testQueue.push({ id: 'a', payload: 'y', performIn: FUTURE })
    await claimer.complete(a!)
    expect(await testQueue.job('a')).toMatchObject({ error: null })
  })

  test('of some by filter, in chunks, leaves the others', async () => {
    const testQueue = await env.queue()
    await bury(testQueue, ...numbered(25), { id: '0003', payload: 'more', score: 8 })
    const seen: Progress[] = []
    const filter = { id: { to: '0019' }, score: { to: 5 } }
    for await (const progress of env.lockstep.requeue(testQueue.queue, filter, { chunk: 8 }))
      seen.push(progress)
    expect(seen).toEqual([0, 8, 16, 20].map((done) => ({ done, total: 20 })))
    expect(await deadIn(testQueue)).toEqual(['0003', '0020', '0021', '0022', '0023', '0024'])
    expect(await testQueue.countJobs()).toBe(20)
  })

  test('of the same payload by two sessions: one moves it, and nothing is left over', async () => {
    const testQueue = await env.queue()
    for (let n = 0; n < 10; n += 1) {
      await bury(testQueue, ...numbered(40))
      const [one, two] = await Promise.all([
        env.lockstep.requeue(testQueue.queue, {}, { chunk: 15 }),
        env.lockstep.requeue(testQueue.queue, {}, { chunk: 9 }),
      ])
      expect(one.done + two.done).toBe(40)
      expect([await testQueue.countJobs(), await testQueue.countPayloads()]).toEqual([40, 40])
      await env.lockstep.delete(testQueue.queue, {})
    }
  })

  test('of what somebody else requeued meanwhile changes nothing', async () => {
    const testQueue = await env.queue()
    await bury(testQueue, { id: 'a', payload: 'v' })
    const other = await env.transaction()
    const requeue = `SELECT lockstep.requeue(queue_id, ARRAY[job_id], ARRAY[digest]) FROM lockstep.morgue WHERE queue_id = ${testQueue.queueId}`
    await other.query(requeue)
    const second = env.lockstep.requeue(testQueue.queue, {}).then((last) => last)
    await until(async () => {
      const rows = await env.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`,
      )
      expect(rows).toHaveLength(1)
    })
    await other.query(
      `UPDATE lockstep.jobs SET retry_count = 3, perform_in = '2040-01-01' WHERE queue_id = $1`,
      [testQueue.queueId],
    )
    await other.query('COMMIT')
    expect(await second).toEqual({ done: 0, total: 1 })
    expect(await testQueue.job('a')).toMatchObject({
      retry_count: 3,
      performIn: new Date('2040-01-01').getTime(),
    })

    await env.query('SELECT lockstep.requeue($1, ARRAY[$2], ARRAY[sha256($2::bytea)])', [
      testQueue.queueId,
      'none',
    ])
    expect(await testQueue.findJob('none')).toBeUndefined()
  })

  test('and deaths of the same payloads lock in one order: no deadlock, nothing lost', async () => {
    const testQueue = await env.queue({ batchSize: 20 })
    const all = numbered(20)
    await bury(testQueue, ...all)
    const claimer = await testQueue.claimer()
    let moved = 0
    const dying = async () => {
      for (let n = 0; n < 60; n += 1) {
        const { rounds } = await claimer.claim()
        const held = await claimer.fail(rounds.reverse(), null)
        const again = rounds.filter(({ id }) => held.some((one) => one.id === id && one.outcome === 'held'))
        if (again.length > 0) await claimer.release(...again)
      }
    }
    const rising = async () => {
      for (let n = 0; n < 30; n += 1) {
        const { done } = await env.lockstep.requeue(testQueue.queue, {}, { chunk: 20 })
        moved += done
      }
    }
    const burying = async () => {
      for (let n = 0; n < 30; n += 1) await env.lockstep.kill(testQueue.queue, {}, { chunk: 20 })
    }
    await Promise.all([dying(), rising(), rising(), burying()])
    expect(moved).toBeGreaterThan(0)
    expect((await deadIn(testQueue)).length + (await testQueue.countPayloads())).toBe(20)
  })
})

describe('R11 deleting from the morgue', () => {
  test('takes those that match, in chunks', async () => {
    const testQueue = await env.queue()
    await bury(testQueue, ...numbered(25))
    await testQueue.push({ id: '0001', payload: 'waiting', performIn: FUTURE })
    const seen: Progress[] = []
    const filter = { id: { from: '0005' } }
    for await (const progress of env.lockstep.deleteDead(testQueue.queue, filter, { chunk: 8 }))
      seen.push(progress)
    expect(seen).toEqual([0, 8, 16, 20].map((done) => ({ done, total: 20 })))
    expect(await deadIn(testQueue)).toEqual(['0000', '0001', '0002', '0003', '0004'])
    expect(await testQueue.countJobs()).toBe(1)
    expect(await env.lockstep.deleteDead(testQueue.queue, { digests: [] })).toEqual({ done: 0, total: 0 })
  })

  test('looks at the filter again on a row it has waited for', async () => {
    const testQueue = await env.queue()
    await bury(testQueue, { id: 'a', payload: 'v', score: 5 })
    const other = await env.transaction()
    const pid = await pidOf(other)
    await other.query('UPDATE lockstep.morgue SET score = 1 WHERE queue_id = $1', [testQueue.queueId])
    const deleting = env.lockstep.deleteDead(testQueue.queue, { score: { from: 5 } }).then((last) => last)
    await until(async () => {
      const rows = await env.query('SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))', [
        pid,
      ])
      expect(rows).toHaveLength(1)
    })
    await other.query('COMMIT')
    expect(await deleting).toEqual({ done: 0, total: 1 })
    expect(await deadIn(testQueue)).toEqual(['a'])
  })

  test('and kills that meet the same payloads: no deadlock', async () => {
    const testQueue = await env.queue()
    const all = numbered(40)
    const killing = async () => {
      for (let n = 0; n < 15; n += 1) await bury(testQueue, ...all)
    }
    const deleting = async () => {
      for (let n = 0; n < 30; n += 1) await env.lockstep.deleteDead(testQueue.queue, {})
    }
    await Promise.all([killing(), deleting(), deleting()])
    await env.lockstep.deleteDead(testQueue.queue, {})
    expect(await deadIn(testQueue)).toEqual([])
  })

  test('refuses a misspelt filter at once', async () => {
    const testQueue = await env.queue()
    expect(() => env.lockstep.deleteDead(testQueue.queue, { digest: 'x' } as DeadFilter)).toThrow(
      'deleteDead: unknown option `digest`, did you mean `digests`?',
    )
    expect(() => env.lockstep.requeue(testQueue.queue, undefined as never)).toThrow(OptionError)
    expect(() => env.lockstep.deleteDead(testQueue.queue, { ids: undefined })).toThrow(
      'deleteDead: ids is undefined: give it a value, or leave the key out',
    )
  })
})

test('R5 requeue waits for a producer’s open transaction', async () => {
  const testQueue = await env.queue()
  await bury(testQueue, { id: 'a', payload: 'v', score: 1 })
  await testQueue.push({ id: 'a', payload: 'u', score: 0, performIn: FUTURE })
  const producer = await env.transaction()
  await testQueue.pushIn(producer, { id: 'a', payload: 'w', score: 2, performIn: FUTURE })
  const session = await env.session()
  const pid = await pidOf(session)
  const requeue = session.query(
    'SELECT lockstep.requeue(queue_id, ARRAY[job_id], ARRAY[digest]) FROM lockstep.morgue WHERE queue_id = $1',
    [testQueue.queueId],
  )
  await untilBlocked(env, pid)
  await producer.query('COMMIT')
  await requeue
  expect(await testQueue.set('a')).toEqual(['u[0]', 'v[1]', 'w[2]'])
})

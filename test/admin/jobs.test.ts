import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type JobFilter, OptionError, type Progress } from '../../src/index.ts'
import { openStore, type StoreEnvironment, type TestQueue, until } from '../support/store-environment.ts'

const FUTURE = Date.parse('2040-01-01T00:00:00Z')

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterEach(() => env.endSessions())
afterAll(() => env?.close())

/** Jobs `0000`, `0001`, … that are not due for a long time. */
async function later(testQueue: TestQueue, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, n) => String(n).padStart(4, '0'))
  await testQueue.push(...ids.map((id) => ({ id, payload: id, score: 1, performIn: FUTURE })))
  return ids
}

async function ids(testQueue: TestQueue, filter: JobFilter = {}): Promise<string[]> {
  const { items } = await env.lockstep.find(testQueue.queue, { ...filter, by: 'id', limit: 1_000 })
  return items.map(({ id }) => id)
}

const ACTIONS = ['performNow', 'delete', 'kill'] as const

describe.each(ACTIONS)('R11 %s', (action) => {
  test('does it to all in chunks, and tells how far it is', async () => {
    const testQueue = await env.queue()
    await later(testQueue, 25)
    const seen: Progress[] = []
    for await (const progress of env.lockstep[action](testQueue.queue, {}, { chunk: 10 })) seen.push(progress)
    expect(seen).toEqual([0, 10, 20, 25].map((done) => ({ done, total: 25 })))
  })

  test('does it to those that match alone', async () => {
    const testQueue = await env.queue()
    const all = await later(testQueue, 20)
    await env.query("UPDATE lockstep.jobs SET retry_count = 5 WHERE queue_id = $1 AND id >= '0015'", [
      testQueue.queueId,
    ])
    const filter = { retryCount: { from: 5 }, id: { to: '0017' } }
    expect(await env.lockstep[action](testQueue.queue.name, filter)).toEqual({ done: 3, total: 3 })
    expect(await ids(testQueue, { performIn: { from: new Date(FUTURE) } })).toEqual([
      ...all.slice(0, 15),
      '0018',
      '0019',
    ])
    expect(await env.lockstep[action](testQueue.queue, { ids: ['0003'] })).toEqual({ done: 1, total: 1 })
    expect(await env.lockstep[action](testQueue.queue, { ids: [] })).toEqual({ done: 0, total: 0 })
  })

  test('leaves what is in work alone', async () => {
    const testQueue = await env.queue()
    await testQueue.push({ id: 'busy', payload: 'v', score: 1 })
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    await later(testQueue, 5)
    const before = await testQueue.job('busy')

    expect(await env.lockstep[action](testQueue.queue, {}, { chunk: 2 })).toEqual({ done: 5, total: 5 })
    expect(await env.lockstep[action](testQueue.queue, { state: 'working' })).toEqual({ done: 0, total: 0 })
    expect(await testQueue.job('busy')).toEqual(before)
    expect(await testQueue.dead('busy')).toEqual([])
    expect(await testQueue.countPayloads('busy')).toBe(1)
    expect(await claimer.complete(round)).toEqual([])
    expect(await testQueue.findJob('busy')).toBeUndefined()
  })

  test('takes what a dead process left', async () => {
    const testQueue = await env.queue()
    await testQueue.push({ id: 'left', payload: 'v', score: 1 })
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    await env.expire(claimer.processId)
    expect(await env.lockstep[action](testQueue.queue, {})).toEqual({ done: 1, total: 1 })
    expect((await claimer.complete(round)).map(({ outcome }) => outcome)).toEqual(['lost'])
  })

  test('waits for the row of an open transaction, and holds up no other meanwhile', async () => {
    const testQueue = await env.queue()
    await later(testQueue, 20)
    const producer = await env.transaction()
    await testQueue.pushIn(producer, { id: '0007', payload: 'more', score: 2 })

    const seen: Progress[] = []
    const running = (async () => {
      for await (const progress of env.lockstep[action](testQueue.queue, {}, { chunk: 8 }))
        seen.push(progress)
    })()
    await until(() => expect(seen.at(-1)?.done).toBe(19))
    await untilOneWaits(testQueue)
    const others = await env.query(
      'SELECT id FROM lockstep.jobs WHERE queue_id = $1 FOR UPDATE SKIP LOCKED',
      [testQueue.queueId],
    )
    expect(others).toHaveLength(action === 'performNow' ? 19 : 0)

    await producer.query('COMMIT')
    await running
    expect(seen.at(-1)).toEqual({ done: 20, total: 20 })
    if (action === 'delete') expect(await testQueue.countPayloads()).toBe(0)
    if (action === 'kill')
      expect((await testQueue.dead('0007')).map(({ payload }) => payload)).toEqual(['0007', 'more'])
  })

  test('never makes a transaction of the application the victim of a deadlock', async () => {
    const testQueue = await env.queue()
    await later(testQueue, 4)
    const producer = await env.transaction()
    await testQueue.pushIn(producer, { id: '0003', payload: 'one' })
    const running = env.lockstep[action](testQueue.queue, {}).then((last) => last)
    await untilOneWaits(testQueue)
    await testQueue.pushIn(producer, { id: '0000', payload: 'two' })
    await producer.query('COMMIT')
    expect((await running).done).toBe(4)
  })

  test('looks at the filter again on a row it has waited for', async () => {
    const testQueue = await env.queue()
    await later(testQueue, 1)
    const other = await env.transaction()
    await other.query('UPDATE lockstep.jobs SET retry_count = 3 WHERE queue_id = $1', [testQueue.queueId])
    const running = env.lockstep[action](testQueue.queue, { retryCount: { to: 2 } }).then((last) => last)
    await untilOneWaits(testQueue)
    await other.query('COMMIT')
    expect(await running).toEqual({ done: 0, total: 1 })
    expect(await testQueue.countJobs()).toBe(1)
  })

  test('stops between chunks when it is told to, and keeps what is done', async () => {
    const testQueue = await env.queue()
    await later(testQueue, 30)
    const stop = new AbortController()
    const seen: number[] = []
    await expect(async () => {
      for await (const { done } of env.lockstep[action](
        testQueue.queue,
        {},
        { chunk: 10, signal: stop.signal },
      )) {
        seen.push(done)
        if (done === 10) stop.abort(new Error('enough'))
      }
    }).rejects.toThrow('enough')
    expect(seen).toEqual([0, 10])
    expect(await ids(testQueue, { performIn: { from: new Date(FUTURE) } })).toHaveLength(20)
    await expect(env.lockstep[action](testQueue.queue, {}, { signal: stop.signal })).rejects.toThrow('enough')
  })

  test('refuses a misspelt filter or option at once: it would name every job', async () => {
    const testQueue = await env.queue()
    const call =
      (filter: unknown, options = {}) =>
      () =>
        env.lockstep[action](testQueue.queue, filter as JobFilter, options)
    expect(call({ Ids: ['a'] })).toThrow(
      new OptionError(`${action}: unknown option \`Ids\`, did you mean \`ids\`?`),
    )
    expect(call(undefined)).toThrow(`${action} takes a filter, {} for all, not undefined`)
    expect(call({ ids: undefined })).toThrow(
      new OptionError(`${action}: ids is undefined: give it a value, or leave the key out`),
    )
    expect(call({ performIn: { to: undefined } })).toThrow(`${action}: performIn.to is undefined`)
    expect(call({ id: {} })).toThrow(`${action}: id has neither from nor to`)
    expect(call({}, { chunk: 0 })).toThrow(`${action}: chunk must be a whole number from 1 to 10000, not 0`)
    await expect(env.lockstep[action]('nowhere', {})).rejects.toMatchObject({
      code: 'LOCKSTEP_UNKNOWN_QUEUE',
    })
  })
})

/** Resolves when a session waits for a row of this database. */
function untilOneWaits(testQueue: TestQueue): Promise<void> {
  return until(async () => {
    const rows = await testQueue.env.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
         AND state = 'active' AND query ~ 'lock_waiting' AND clock_timestamp() > query_start + interval '50 ms'`,
    )
    expect(rows).toHaveLength(1)
  })
}

describe('R11 perform now', () => {
  test('makes jobs due, everything else unchanged', async () => {
    const testQueue = await env.queue()
    await later(testQueue, 1)
    await env.query('UPDATE lockstep.jobs SET retry_count = 4, error = $2 WHERE queue_id = $1', [
      testQueue.queueId,
      'oops',
    ])
    const since = Date.now()
    await env.lockstep.performNow(testQueue.queue, {})
    const job = await testQueue.job('0000')
    expect(job).toMatchObject({ retry_count: 4, error: 'oops', crashes: 0 })
    expect(Math.abs(job.performIn - since)).toBeLessThan(60_000)
    expect(await (await testQueue.claimer()).take()).toMatchObject({ id: '0000', retryCount: 4 })
  })

  test('of what a dead process left counts the crash, and any look sees it', async () => {
    const testQueue = await env.queue()
    await testQueue.push({ id: 'left', payload: 'v', score: 1 })
    const dead = await testQueue.claimer()
    await dead.take()
    await testQueue.push({ id: 'left', payload: 'w', score: 2, performIn: FUTURE })
    await env.expire(dead.processId)
    await env.lockstep.performNow(testQueue.queue, {})
    expect(await testQueue.job('left')).toMatchObject({ claimed_by: null, crashes: 1, nextPerformIn: null })
    const round = await (await testQueue.claimer()).take()
    expect(round).toMatchObject({ id: 'left', crashes: 1, rescued: false, payloads: ['v', 'w'] })
  })
})

describe('R11 delete', () => {
  test('takes the payloads along, and does not run after ids that are added', async () => {
    const testQueue = await env.queue()
    await later(testQueue, 30)
    let pushed = 30
    for await (const _ of env.lockstep.delete(testQueue.queue, {}, { chunk: 3 })) {
      const more = Array.from({ length: 5 }, () => String(pushed++).padStart(4, '0'))
      await testQueue.push(...more.map((id) => ({ id, performIn: FUTURE })))
    }
    expect(await ids(testQueue)).toHaveLength(pushed - 30)
    expect(await testQueue.countPayloads()).toBe(pushed - 30)
  })

  test('and a push of the same id in work of each other: all or nothing of each', async () => {
    const testQueue = await env.queue()
    await later(testQueue, 200)
    const all = await ids(testQueue)
    const push = async () => {
      for (let n = 0; n < 20; n += 1) {
        await testQueue.push(...all.map((id) => ({ id, payload: n, score: n, performIn: FUTURE })))
      }
    }
    const remove = async () => {
      for (let n = 0; n < 20; n += 1) await env.lockstep.delete(testQueue.queue, {}, { chunk: 50 })
    }
    await Promise.all([push(), remove(), remove()])
    const rows = await env.query(
      `SELECT FROM lockstep.jobs j FULL JOIN (SELECT DISTINCT queue_id, job_id FROM lockstep.payloads) p
         ON p.queue_id = j.queue_id AND p.job_id = j.id
       WHERE coalesce(j.queue_id, p.queue_id) = $1 AND (j.id IS NULL OR p.job_id IS NULL)`,
      [testQueue.queueId],
    )
    expect(rows).toEqual([])
  })
})

describe('R11 kill', () => {
  test('moves whole payload sets, equal payloads folded into the smallest score, with the last error', async () => {
    const testQueue = await env.queue()
    await testQueue.push({ id: 'a', payload: 'v', score: 5 }, { id: 'a', payload: 'u', score: 7 })
    const claimer = await testQueue.claimer()
    const round = await claimer.take()
    await testQueue.push({ id: 'a', payload: 'v', score: 3 }, { id: 'a', payload: 'w', score: 1 })
    await claimer.fail([round], 3_600, 'broken')
    await testQueue.push({ id: 'b', payload: 'x', score: 1, performIn: FUTURE })

    expect(await env.lockstep.kill(testQueue.queue, {})).toEqual({ done: 2, total: 2 })
    const dead = await testQueue.dead('a')
    expect(dead.toSorted((a, b) => a.score - b.score)).toEqual([
      { payload: 'w', score: 1, error: 'broken' },
      { payload: 'v', score: 3, error: 'broken' },
      { payload: 'u', score: 7, error: 'broken' },
    ])
    expect(await testQueue.dead('b')).toEqual([{ payload: 'x', score: 1, error: 'killed' }])
    expect([await testQueue.countJobs(), await testQueue.countPayloads()]).toEqual([0, 0])
  })

  test('a payload that is dead already keeps the smaller score', async () => {
    const testQueue = await env.queue()
    for (const score of [4, 2, 6]) {
      await testQueue.push({ id: 'a', payload: 'v', score, performIn: FUTURE })
      await env.lockstep.kill(testQueue.queue, {})
    }
    expect(await testQueue.dead('a')).toEqual([{ payload: 'v', score: 2, error: 'killed' }])
  })
})

test('R11 deleting waits for a producer that pushes into the job, then takes its payload along', async () => {
  const testQueue = await env.queue()
  await later(testQueue, 1)
  const producer = await env.transaction()
  await testQueue.pushIn(producer, { id: '0000', payload: 'late' }, { id: 'new', payload: 'unseen' })
  const deleting = env.lockstep.delete(testQueue.queue, {}).then((last) => last)
  await untilOneWaits(testQueue)
  await producer.query('COMMIT')
  expect(await deleting).toEqual({ done: 1, total: 1 })
  expect(await ids(testQueue)).toEqual(['new'])
  expect(await testQueue.countPayloads()).toBe(1)
})

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { FoundJob, JobFilter, Page } from '../../src/index.ts'
import type { Round } from '../../src/store/claim.ts'
import type { JobSort } from '../../src/store/jobs.ts'
import { actOnWaiting, lockWaiting } from '../../src/store/jobs.ts'
import {
  type Claimer,
  openStore,
  type StoreEnvironment,
  shown,
  type TestQueue,
  until,
} from '../support/store-environment.ts'

const FUTURE = Date.parse('2040-01-01T00:00:00Z')
const MINUTE = 60_000

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterEach(() => env.endSessions())
afterAll(() => env?.close())

/** The id `busy` in progress with v[5] after a failure, its handler still running, and behind it n[1] and v[9]. */
async function hang(performIn = FUTURE): Promise<[TestQueue, Claimer, Round]> {
  const testQueue = await env.queue()
  const claimer = await testQueue.claimer()
  await testQueue.push({ id: 'busy', payload: 'v', score: 5, lane: 2 })
  await claimer.fail((await claimer.claim({ lane: 2 })).rounds, 0, 'broken')
  const [round] = (await claimer.claim({ lane: 2 })).rounds
  await testQueue.push(
    { id: 'busy', payload: 'n', score: 1, performIn },
    { id: 'busy', payload: 'v', score: 9, performIn: performIn + 1 },
  )
  return [testQueue, claimer, round!]
}

/** `waiting: n[1] v[9]` for each entry. */
function told(items: readonly FoundJob[]): string[] {
  return items.map(
    ({ id, state, payloads }) =>
      `${id} ${state}: ${payloads.map(({ payload, score }) => `${payload}[${score}]`).join(' ')}`,
  )
}

describe('P3 what was pushed while its id is in work waits, and shows', () => {
  test('in find, as an entry of its own beside that of the round in work', async () => {
    const [testQueue, claimer, round] = await hang()
    const { items } = await env.lockstep.find(testQueue.queue, { by: 'id' })
    expect(told(items)).toEqual(['busy waiting: n[1] v[9]', 'busy working: v[5]'])
    expect(items).toMatchObject([
      {
        ...{
          lane: 2,
          shard: 0,
          retryCount: -1,
          crashes: 0,
          error: null,
          claimedAt: null,
          processId: null,
          fence: null,
        },
        performIn: new Date(FUTURE),
      },
      {
        lane: 2,
        shard: 0,
        retryCount: 0,
        error: 'broken',
        claimedAt: expect.any(Date),
        processId: claimer.processId,
        fence: round.fence,
      },
    ])
  })

  test('in the view `waiting`; what is in work shows in `working` alone', async () => {
    const [testQueue] = await hang()
    const rows = await env.query('SELECT * FROM lockstep.waiting WHERE queue = $1', [testQueue.queue.name])
    expect(rows).toEqual([
      {
        ...{ queue: testQueue.queue.name, id: 'busy', shard: 0, lane: 2 },
        ...{ perform_in: new Date(FUTURE), retry_count: -1, crashes: 0, error: null },
        payloads: [
          { score: 1, payload: 'n' },
          { score: 9, payload: 'v' },
        ],
        ...{ attempts: [], tenant: null },
      },
    ])
    const working = await env.query('SELECT id, payloads FROM lockstep.working WHERE queue = $1', [
      testQueue.queue.name,
    ])
    expect(working).toEqual([{ id: 'busy', payloads: [{ score: 5, payload: 'v' }] }])
  })

  test('in stats, where lag grows from the time it was due', async () => {
    const [due] = await hang(Date.now() - 3 * MINUTE)
    const [later] = await hang()
    const { queues } = await env.lockstep.stats()
    const of = ({ queue }: TestQueue) => queues.find(({ queue: name }) => name === queue.name)!
    expect(of(due)).toMatchObject({ waiting: 1, due: 1, fresh: 1, retrying: 0, working: 1 })
    expect(Math.round(of(due).lag / MINUTE)).toBe(3)
    expect(of(later)).toMatchObject({ waiting: 1, due: 0, fresh: 1, retrying: 0, working: 1, lag: 0 })
  })

  test('until its process is gone: then all of the id is one waiting entry again', async () => {
    const [testQueue, claimer] = await hang()
    await env.expire(claimer.processId)
    const { items } = await env.lockstep.find(testQueue.queue)
    expect(told(items)).toEqual(['busy waiting: n[1] v[5]'])
    expect(items).toMatchObject([{ retryCount: 0, error: 'broken' }])
    expect((await testQueue.set('busy')).join()).toBe('n[1],v[5]')
    const { queues } = await env.lockstep.stats()
    expect(queues.find(({ queue }) => queue === testQueue.queue.name)).toMatchObject({
      ...{ waiting: 1, fresh: 0, retrying: 1, working: 0 },
    })
  })
})

describe('R11 find', () => {
  /** 12 ids in progress, with something waiting behind every third one. There are ties in every column. */
  async function populate(): Promise<TestQueue> {
    const testQueue = await env.queue({ batchSize: 12 })
    const ids = Array.from({ length: 12 }, (_, n) => `j${String(n).padStart(2, '0')}`)
    await testQueue.push(...ids.map((id) => ({ id, payload: 'now', score: 1, performIn: 1_000 })))
    await (await testQueue.claimer()).claim()
    const behind = ids.filter((_, n) => n % 3 === 0)
    await testQueue.push(...behind.map((id) => ({ id, payload: 'next', score: 1, performIn: 1_000 })))
    await env.query(
      `UPDATE lockstep.jobs SET retry_count = CASE WHEN id > 'j06' THEN 2 ELSE -1 END WHERE queue_id = $1`,
      [testQueue.queueId],
    )
    return testQueue
  }

  async function turn(testQueue: TestQueue, filter: JobFilter & Page<JobSort>): Promise<string[]> {
    const found: string[] = []
    let after: string | undefined
    do {
      const { items, next } = await env.lockstep.find(testQueue.queue, { ...filter, after })
      found.push(...items.map(({ id, state, retryCount }) => `${id} ${state} ${retryCount}`))
      after = next
    } while (after !== undefined)
    return found
  }

  test.each(['id', 'performIn', 'retryCount'] as const)(
    'pages by %s have both entries of an id, each once, wherever they are cut',
    async (by) => {
      const testQueue = await populate()
      const all = await turn(testQueue, { by })
      expect(all).toHaveLength(16)
      expect(new Set(all).size).toBe(16)
      for (const limit of [1, 2, 3, 5, 15]) {
        expect(await turn(testQueue, { by, limit })).toEqual(all)
        expect(await turn(testQueue, { by, limit, direction: 'desc' })).toEqual(all.toReversed())
      }
    },
  )

  test('looks for values of the entry itself', async () => {
    const [testQueue] = await hang()
    const find = async (filter: JobFilter) => told((await env.lockstep.find(testQueue.queue, filter)).items)
    const [next, working] = ['busy waiting: n[1] v[9]', 'busy working: v[5]']
    expect(await find({ retryCount: { to: -1 } })).toEqual([next])
    expect(await find({ retryCount: { from: 0 } })).toEqual([working])
    expect(await find({ performIn: { from: new Date(FUTURE) } })).toEqual([next])
    expect(await find({ performIn: { to: new Date() } })).toEqual([working])
    expect(await find({ state: 'waiting' })).toEqual([next])
    expect(await find({ state: 'working' })).toEqual([working])
    expect(await find({ state: 'waiting', retryCount: { from: 0 } })).toEqual([])
    expect(await find({ ids: ['busy'], id: { from: 'b', to: 'c' } })).toEqual([working, next])
  })

  test('of ids returns all that were asked for, both entries of each, unless a limit is set', async () => {
    const testQueue = await env.queue({ batchSize: 1_100 })
    const ids = Array.from({ length: 1_100 }, (_, n) => String(n))
    await testQueue.push(...ids.map((id) => ({ id })))
    await (await testQueue.claimer()).claim()
    await testQueue.push(...ids.map((id) => ({ id, performIn: FUTURE })))
    const all = await env.lockstep.find(testQueue.queue, { ids })
    expect(all.items).toHaveLength(2_200)
    expect(all.next).toBeUndefined()
    expect((await env.lockstep.find(testQueue.queue, { ids, limit: 10 })).items).toHaveLength(10)
    expect((await env.lockstep.find(testQueue.queue, { ids: [] })).items).toEqual([])
    expect((await env.lockstep.find(testQueue.queue)).items).toHaveLength(100)
  })
})

describe('R11 an operator behind a handler that hangs', () => {
  test('deletes what waits behind it: the round in work ends as if nothing had been pushed', async () => {
    const [testQueue, claimer, round] = await hang()
    const before = await testQueue.job('busy')
    expect(await env.lockstep.delete(testQueue.queue, {})).toEqual({ done: 1, total: 1 })
    expect(await testQueue.job('busy')).toEqual({ ...before, next_perform_in: null, nextPerformIn: null })
    expect(await env.lockstep.delete(testQueue.queue, {})).toEqual({ done: 0, total: 0 })
    expect(await claimer.complete(round)).toEqual([])
    expect([await testQueue.countJobs(), await testQueue.countPayloads()]).toEqual([0, 0])
  })

  test('and what is pushed after that is the next round', async () => {
    const [testQueue, claimer, round] = await hang()
    await env.lockstep.delete(testQueue.queue, { ids: ['busy'] })
    await testQueue.push({ id: 'busy', payload: 'v', score: 7, performIn: 1_000 })
    expect(await testQueue.job('busy')).toMatchObject({ nextPerformIn: 1_000 })
    await claimer.complete(round)
    expect(await testQueue.set('busy')).toEqual(['v[7]'])
  })

  test('and a failure unites what is left', async () => {
    const [testQueue, claimer, round] = await hang()
    await env.lockstep.delete(testQueue.queue, {})
    await claimer.fail([round], 0, 'again')
    expect(await testQueue.set('busy')).toEqual(['v[5]'])
    expect(await testQueue.job('busy')).toMatchObject({ retry_count: 1, error: 'again' })
  })

  test('and a failure has all that the round has failed with, whether a row of its own or the job’s carries it', async () => {
    const testQueue = await env.queue()
    const claimer = await testQueue.claimer()
    for (const payload of ['u', 'v']) await testQueue.push({ id: 'busy', payload, score: 5 })
    const round = await claimer.take()
    await testQueue.push({ id: 'busy', payload: 'n', score: 1 })
    expect(await env.lockstep.delete(testQueue.queue, {})).toEqual({ done: 1, total: 1 })
    await claimer.fail([round], 0, 'again')
    expect(await testQueue.set('busy')).toEqual(['u[5]', 'v[5]'])
  })

  test('kills what waits behind it, an equal payload in work not among it', async () => {
    const [testQueue, claimer, round] = await hang()
    const before = await testQueue.job('busy')
    expect(await env.lockstep.kill(testQueue.queue, {})).toEqual({ done: 1, total: 1 })
    expect(await testQueue.dead('busy')).toEqual([
      { payload: 'n', score: 1, error: 'killed' },
      { payload: 'v', score: 9, error: 'killed' },
    ])
    expect(await testQueue.job('busy')).toEqual({ ...before, next_perform_in: null, nextPerformIn: null })
    expect(await claimer.complete(round)).toEqual([])
    expect([await testQueue.countJobs(), await testQueue.countPayloads()]).toEqual([0, 0])
  })

  test('has what waits behind it performed as soon as it ends', async () => {
    const [testQueue, claimer, round] = await hang()
    const before = await testQueue.job('busy')
    const since = Date.now() - MINUTE
    expect(await env.lockstep.performNow(testQueue.queue, {})).toEqual({ done: 1, total: 1 })
    const job = await testQueue.job('busy')
    expect(job.nextPerformIn! - since).toBeLessThan(2 * MINUTE)
    expect({ ...job, next_perform_in: null, nextPerformIn: null }).toEqual({
      ...before,
      ...{ next_perform_in: null, nextPerformIn: null },
    })
    const [again] = await claimer.complete(round)
    expect(again).toMatchObject({ id: 'busy', outcome: 'again' })
    const { rounds } = await claimer.claim({ lane: 2 })
    expect(shown(rounds)).toEqual(['busy: n[1] v[9]'])
    expect(rounds).toMatchObject([{ retryCount: -1, error: null }])
  })

  test.each(['performNow', 'delete', 'kill'] as const)(
    '%s takes those that match alone, by the values of what waits',
    async (action) => {
      const [testQueue] = await hang()
      const act = (filter: JobFilter) => env.lockstep[action](testQueue.queue, filter)
      expect(await act({ retryCount: { from: 0 } })).toEqual({ done: 0, total: 0 })
      expect(await act({ performIn: { to: new Date() } })).toEqual({ done: 0, total: 0 })
      expect(await act({ state: 'working' })).toEqual({ done: 0, total: 0 })
      expect(await testQueue.countPayloads()).toBe(3)
      const filter = {
        retryCount: { to: -1 },
        performIn: { from: new Date(FUTURE) },
        state: 'waiting',
      } as const
      expect(await act(filter)).toEqual({ done: 1, total: 1 })
    },
  )

  test.each(['performNow', 'delete', 'kill'] as const)(
    '%s looks again at what it has waited for: a round that failed, or lost its process, is another entry',
    async (action) => {
      for (const end of ['fails', 'dies']) {
        const [testQueue, claimer, round] = await hang()
        const other = await env.transaction()
        await testQueue.pushIn(other, { id: 'busy', payload: 'w', score: 2 })
        const acting = env.lockstep[action](testQueue.queue, { retryCount: { to: -1 } }).then((last) => last)
        await untilOneWaits()
        if (end === 'fails') await claimer.on(other).fail([round], 3_600)
        else await env.expire(claimer.processId)
        await other.query('COMMIT')
        expect([end, await acting]).toEqual([end, { done: 0, total: 1 }])
        expect((await env.lockstep.find(testQueue.queue)).items).toMatchObject([
          { state: 'waiting', retryCount: end === 'fails' ? 1 : 0, payloads: [{}, {}, {}] },
        ])
      }
    },
  )

  test.each(['perform_now', 'delete_jobs', 'kill'] as const)(
    '%s does it to what it has seen: not to a round whose process dies meanwhile',
    async (action) => {
      const [testQueue, claimer] = await hang()
      const done = await env.database.transaction(async (tx) => {
        const filter = { retryCount: { to: -1 } }
        const entries = await lockWaiting(env.database, tx, testQueue.queueId, filter, ['busy'])
        expect(entries).toEqual([{ id: 'busy', next: true }])
        await env.expire(claimer.processId)
        return actOnWaiting(env.database, tx, action, testQueue.queueId, entries)
      })
      expect(done).toBe(1)
      const left = action === 'perform_now' ? ['n[1]', 'v[5]'] : ['v[5]']
      expect(await testQueue.set('busy')).toEqual(left)
      expect(await testQueue.job('busy')).toMatchObject({
        retry_count: 0,
        error: 'broken',
        claimed_by: claimer.processId,
      })
    },
  )

  /** Resolves when a session alone waits for a row of this database, for longer than a chunk would. */
  function untilOneWaits(): Promise<void> {
    return until(async () => {
      const rows = await env.query(
        `SELECT FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
           AND state = 'active' AND query ~ 'lock_waiting' AND clock_timestamp() > query_start + interval '50 ms'`,
      )
      expect(rows).toHaveLength(1)
    })
  }
})

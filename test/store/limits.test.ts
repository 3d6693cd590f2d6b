import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import type { Limits } from '../../src/limits.ts'
import type { Claim } from '../../src/store/claim.ts'
import { trimLimits } from '../../src/store/limits.ts'
import { replaceSetting } from '../../src/store/queue-setting.ts'
import {
  type Claimer,
  openStore,
  pidOf,
  type StoreEnvironment,
  type TestQueue,
  untilBlocked,
} from '../support/store-environment.ts'

const PAST = 1_536_323_288_000

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
afterEach(() => env.endSessions())

/** Returns whether it had others. */
async function setLimits({ queueId }: TestQueue, limits: Limits | undefined): Promise<boolean> {
  return (await replaceSetting(env.database, 'limits', [{ queueId, value: limits }])).includes(queueId)
}

/** A queue whose limits are in force, with so many jobs due in this order. */
async function limited(limits: Limits, ids: readonly string[] = []): Promise<TestQueue> {
  const testQueue = await env.queue({ batchSize: 10, limits })
  await setLimits(testQueue, testQueue.queue.limits)
  await push(testQueue, ids)
  return testQueue
}

/** The letters before a number are the tenant. All go to lane 0. */
async function push(testQueue: TestQueue, ids: readonly string[]): Promise<void> {
  const jobs = ids.map((id, n) => ({
    id,
    tenant: id.replace(/\d+$/, ''),
    lane: 0,
    performIn: PAST + n,
  }))
  if (jobs.length > 0) await testQueue.push(...jobs)
}

const idsOf = ({ rounds }: Claim) => rounds.map(({ id }) => id)
const numbered = (tenant: string, count: number) => Array.from({ length: count }, (_, n) => `${tenant}${n}`)
const view = (testQueue: TestQueue) =>
  env.query<{ tenant: string | null; what: string; most: number; used: number; until: Date | null }>(
    'SELECT tenant, what, most, used, until FROM lockstep.limited WHERE queue = $1 ORDER BY tenant, what',
    [testQueue.queue.name],
  )
const notes = async ({ queueId }: TestQueue) => {
  const [row] = await env.query<{ holds: number; starts: number; turns: number }>(
    `SELECT (SELECT count(*) FROM lockstep.holds WHERE queue_id = $1) AS holds,
       (SELECT count(*) FROM lockstep.starts WHERE queue_id = $1) AS starts,
       (SELECT count(*) FROM lockstep.turns WHERE queue_id = $1) AS turns`,
    [queueId],
  )
  return row!
}

describe('concurrency', () => {
  test('of a queue: no more ids are claimed, and what is over waits with its numbers unchanged', async () => {
    const testQueue = await limited({ concurrency: 2 }, numbered('a', 4))
    const [one, other] = [await testQueue.claimer(), await testQueue.claimer()]
    const claim = await one.claim()
    expect(idsOf(claim)).toEqual(['a0', 'a1'])
    expect(claim.waits).toMatchObject({ full: true, limits: [{ tenant: null, until: null }] })
    expect(idsOf(await other.claim())).toEqual([])
    expect(await view(testQueue)).toEqual([
      { tenant: null, what: 'concurrency', most: 2, used: 2, until: null },
    ])
    expect(await testQueue.job('a2')).toMatchObject({ claimed_by: null, retry_count: -1, crashes: 0 })
    await one.complete(claim.rounds[0]!)
    // On a slow machine, the other one may have waited long enough for its turn.
    await vi.waitFor(async () => expect(idsOf(await one.claim())).toEqual(['a2']), 5_000)
  })

  test('is given back by whatever ends a round', async () => {
    const testQueue = await limited({ concurrency: 1 }, ['a0'])
    const one = await testQueue.claimer()
    await one.fail([await one.take()])
    await one.release(await one.take())
    await one.crash(await one.take())
    await one.fail([await one.take()], null)
    expect(await testQueue.countJobs()).toBe(0)
    await push(testQueue, ['a1', 'a2'])
    await one.discard(await one.take())
    await one.complete(await one.take())
    await push(testQueue, ['a3'])
    await one.take()
    expect(await view(testQueue)).toHaveLength(1)
    // The newest stays until there is a newer one.
    expect(await notes(testQueue)).toMatchObject({ holds: 2 })
  })

  test('is given back when the process is gone, and the job is rescued', async () => {
    const testQueue = await limited({ concurrency: 1 }, ['a0', 'a1'])
    const [one, other] = [await testQueue.claimer(), await testQueue.claimer()]
    await one.take()
    expect(idsOf(await other.claim())).toEqual([])
    await env.expire(one.processId)
    expect((await other.claim()).rounds).toMatchObject([{ id: 'a0', rescued: true, crashes: 1 }])
    expect(idsOf(await other.claim())).toEqual([])
  })

  test('of a tenant: others of its lane go before what it has waiting', async () => {
    const testQueue = await limited({ tenant: { concurrency: 1 } }, ['a0', 'a1', 'b0', 'a2', 'b1', 'c0', '7'])
    const one = await testQueue.claimer()
    const claim = await one.claim()
    expect(idsOf(claim)).toEqual(['a0', 'b0', 'c0', '7'])
    expect(claim.waits).toMatchObject({
      full: false,
      to: (PAST + 6) * 1_000,
      toId: '7',
      limits: [
        { tenant: 'a', until: null, from: (PAST + 1) * 1_000, after: PAST * 1_000, afterId: 'a0' },
        { tenant: 'b', until: null, from: (PAST + 4) * 1_000, after: (PAST + 3) * 1_000, afterId: 'a2' },
      ],
    })
    expect(claim).toMatchObject({ head: null, passed: false })
    await one.complete(claim.rounds[1]!)
    expect(idsOf(await one.claim())).toEqual(['b1'])
    expect((await view(testQueue)).map(({ tenant }) => tenant)).toEqual(['a', 'b', 'c'])
  })

  test('of both: each has its say', async () => {
    const testQueue = await limited({ concurrency: 3, tenant: { concurrency: 2 } }, [
      ...numbered('a', 3),
      ...numbered('b', 3),
    ])
    const one = await testQueue.claimer()
    expect(idsOf(await one.claim())).toEqual(['a0', 'a1', 'b0'])
    expect(idsOf(await one.claim())).toEqual([])
  })

  test('two claims at once never take the last place both', async () => {
    const testQueue = await limited({ concurrency: 1 }, ['a0', 'a1'])
    const [one, other] = [await testQueue.claimer(), await testQueue.claimer()]
    const [tx, session] = [await env.transaction(), await env.session()]
    expect(idsOf(await one.on(tx).claim())).toEqual(['a0'])
    const pid = await pidOf(session)
    const second = other.on(session).claim()
    await untilBlocked(env, pid)
    await tx.query('COMMIT')
    expect(idsOf(await second)).toEqual([])
  })

  test('many claims at once never hold more', async () => {
    const testQueue = await limited({ concurrency: 5, tenant: { concurrency: 2 } }, [
      ...numbered('a', 40),
      ...numbered('b', 40),
      ...numbered('c', 40),
    ])
    const claimers = await Promise.all(Array.from({ length: 8 }, () => testQueue.claimer()))
    let done = 0
    const run = async (claimer: Claimer) => {
      while (done < 120) {
        const { rounds } = await claimer.claim({ batchSize: 4 })
        const held = await env.query<{ tenant: string; count: number }>(
          `SELECT tenant, count(*) FROM lockstep.jobs WHERE queue_id = $1 AND claimed_by IS NOT NULL GROUP BY 1`,
          [testQueue.queueId],
        )
        expect(Math.max(0, ...held.map(({ count }) => count))).toBeLessThanOrEqual(2)
        expect(held.reduce((sum, { count }) => sum + count, 0)).toBeLessThanOrEqual(5)
        await claimer.complete(...rounds)
        done += rounds.length
      }
    }
    await Promise.all(claimers.map(run))
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('a claim whose limits someone else is counting gives up soon, and the outcomes with it are stored', async () => {
    const testQueue = await limited({ concurrency: 1 }, ['a0'])
    const one = await testQueue.claimer()
    const tx = await env.transaction()
    await tx.query(`SELECT pg_advisory_xact_lock('lockstep.holds'::regclass::oid::integer, $1)`, [
      testQueue.queueId,
    ])
    const claim = await one.claim()
    expect(claim).toMatchObject({ rounds: [], waits: { full: true, limits: [] } })
    await tx.query('COMMIT')
    expect(idsOf(await one.claim())).toEqual(['a0'])
  })

  test('a process that is turned away gets the next place after a tenth of a second, though another asks first', async () => {
    const testQueue = await limited({ concurrency: 1 }, numbered('a', 9))
    const [one, other] = [await testQueue.claimer(), await testQueue.claimer()]
    const first = await one.take()
    expect(idsOf(await other.claim())).toEqual([])
    await sleep(150)
    await one.complete(first)
    expect(idsOf(await one.claim())).toEqual([])
    const [second] = (await other.claim()).rounds
    expect(second).toBeDefined()
    await other.complete(second!)
    // Its wait is younger than a tenth of a second.
    expect((await other.claim()).rounds).toHaveLength(1)
  })

  test('nobody waits for a process that asks no more', async () => {
    const testQueue = await limited({ concurrency: 1 }, numbered('a', 3))
    const [one, other] = [await testQueue.claimer(), await testQueue.claimer()]
    const first = await one.take()
    await other.claim()
    await env.query(
      `UPDATE lockstep.turns SET since = since - interval '1 h', seen_at = seen_at - interval '2 s'`,
    )
    await one.complete(first)
    expect((await one.claim({ batchSize: 1 })).rounds).toHaveLength(1)
  })

  test('a row that someone has locked is passed over, and told', async () => {
    const testQueue = await limited({ concurrency: 2, tenant: { concurrency: 1 } }, ['a0', 'b0', 'b1'])
    const tx = await env.transaction()
    await tx.query(`SELECT FROM lockstep.jobs WHERE queue_id = $1 AND id = 'a0' FOR UPDATE`, [
      testQueue.queueId,
    ])
    const claim = await (await testQueue.claimer()).claim()
    expect(idsOf(claim)).toEqual(['b0'])
    expect(claim).toMatchObject({
      passed: true,
      head: PAST * 1_000,
      waits: { limits: [{ from: (PAST + 2) * 1_000 }] },
    })
  })

  test('a claim reads a bounded part of what waits, and the next one goes on behind', async () => {
    const testQueue = await limited({ tenant: { concurrency: 1 } }, [...numbered('a', 400), 'b0'])
    const one = await testQueue.claimer()
    const first = await one.claim()
    expect(idsOf(first)).toEqual(['a0'])
    const { to, toId } = first.waits!
    expect(to).toBe((PAST + 249) * 1_000)
    expect(first.head).toBe((PAST + 250) * 1_000)
    expect(idsOf(await one.claim({ cursor: { after: to, afterId: toId } }))).toEqual(['b0'])
  })

  test('a queue without limits notes nothing, also beside one with limits in one call', async () => {
    const testQueue = await limited({ concurrency: 1 }, ['a0', 'a1'])
    const [free, last] = [await env.queue(), await env.queue()]
    await push(free, ['b0', 'b1'])
    await push(last, ['c0', 'c1'])
    const one = await free.claimer()
    const rows = await env.query<{ place: number; id: string }>(
      `SELECT place, id FROM lockstep.claim($1, $2, '{0,0,0}', '{0,0,0}', '{5,5,1}', '{NULL,NULL,NULL}',
         '{1000000,1000000,1000000}', '{NULL,NULL,NULL}', '{"","",""}', 1000000) WHERE id IS NOT NULL`,
      [one.processId, [free.queueId, testQueue.queueId, last.queueId]],
    )
    expect(rows.map(({ place, id }) => `${place} ${id}`)).toEqual(['1 b0', '1 b1', '2 a0', '3 c0'])
    expect(await notes(free)).toEqual({ holds: 0, starts: 0, turns: 0 })
  })

  test('a paused queue gives nothing', async () => {
    const testQueue = await limited({ concurrency: 1 }, ['a0'])
    await env.lockstep.pause(testQueue.queue)
    expect(await (await testQueue.claimer()).claim()).toMatchObject({ rounds: [], head: null })
    expect(await notes(testQueue)).toEqual({ holds: 0, starts: 0, turns: 0 })
  })
})

describe('a rate', () => {
  test('of a queue: so many rounds begin, then none before the window lets one go', async () => {
    const testQueue = await limited({ rate: { jobs: 3, per: 60 } }, numbered('a', 5))
    const one = await testQueue.claimer()
    const claim = await one.claim()
    await one.complete(...claim.rounds)
    expect(idsOf(claim)).toEqual(['a0', 'a1', 'a2'])
    const { waits } = await one.claim()
    const until = waits!.limits[0]!.until! / 1_000
    expect(until - Date.now()).toBeGreaterThan(59_000)
    expect(until - Date.now()).toBeLessThan(61_000)
    const [reached, ...others] = await view(testQueue)
    expect(reached).toMatchObject({ tenant: null, what: 'rate', most: 3, used: 3 })
    expect(Math.abs(reached!.until!.getTime() - until)).toBeLessThan(2)
    expect(others).toEqual([])
    await env.query(`UPDATE lockstep.starts SET at = at - interval '61 s' WHERE queue_id = $1`, [
      testQueue.queueId,
    ])
    expect(await view(testQueue)).toEqual([])
    expect(idsOf(await one.claim())).toEqual(['a3', 'a4'])
  })

  test('of a tenant: others go on', async () => {
    const testQueue = await limited({ tenant: { rate: { jobs: 1, per: 60 } } }, ['a0', 'a1', 'b0', '7'])
    const one = await testQueue.claimer()
    expect(idsOf(await one.claim())).toEqual(['a0', 'b0', '7'])
    expect((await view(testQueue)).map(({ tenant }) => tenant)).toEqual(['a', 'b'])
    expect(await notes(testQueue)).toEqual({ holds: 0, starts: 2, turns: 0 })
  })

  test('in any window, wherever it is laid, no more begin', async () => {
    const testQueue = await limited({ rate: { jobs: 5, per: 0.2 } }, numbered('a', 60))
    const one = await testQueue.claimer()
    const at: number[] = []
    while (at.length < 60) {
      const { rounds } = await one.claim({ batchSize: 1 + (at.length % 4) })
      if (rounds.length === 0) {
        await sleep(3)
        continue
      }
      const rows = await env.query<{ at: number }>(
        `SELECT extract(epoch FROM claimed_at)::float8 AS at FROM lockstep.jobs WHERE queue_id = $1 AND claimed_by IS NOT NULL`,
        [testQueue.queueId],
      )
      at.push(...rows.map((row) => row.at))
      await one.complete(...rounds)
    }
    at.sort((a, b) => a - b)
    for (let n = 5; n < at.length; n += 1) expect(at[n]! - at[n - 5]!).toBeGreaterThan(0.2)
  })

  test('a claim that has waited for another one doesn’t take its start for older than it is', async () => {
    const testQueue = await limited({ rate: { jobs: 2, per: 1 } }, numbered('a', 4))
    const patience = (time: string) =>
      env.query(`ALTER FUNCTION lockstep.lock_limits SET lock_timeout = '${time}'`)
    await patience('10s')
    const counting = await env.transaction()
    await counting.query(`SELECT pg_advisory_xact_lock('lockstep.holds'::regclass::oid::integer, $1)`, [
      testQueue.queueId,
    ])
    const claims: Promise<Claim>[] = []
    for (const claimer of [await testQueue.claimer(), await testQueue.claimer()]) {
      const session = await env.session()
      const pid = await pidOf(session)
      claims.push(claimer.on(session).claim())
      await untilBlocked(env, pid)
    }
    // More than a fiftieth of the window, after which a start would lie in the second one's future.
    await sleep(50)
    await counting.query('COMMIT')
    expect((await Promise.all(claims)).map(idsOf)).toEqual([['a0', 'a1'], []])
    await patience('100ms')
    const [row] = await env.query<{ since: number }>(
      `SELECT extract(epoch FROM min(s.at) - max(j.claimed_at))::float8 AS since
       FROM lockstep.starts s JOIN lockstep.jobs j USING (queue_id) WHERE s.queue_id = $1`,
      [testQueue.queueId],
    )
    expect(row!.since).toBeGreaterThanOrEqual(0)
  })

  test('starts in the future, after the clock was set back, count from now on', async () => {
    const testQueue = await limited({ rate: { jobs: 2, per: 0.3 } }, numbered('a', 4))
    const one = await testQueue.claimer()
    await one.complete(...(await one.claim()).rounds)
    await env.query(`UPDATE lockstep.starts SET at = at + interval '1 h' WHERE queue_id = $1`, [
      testQueue.queueId,
    ])
    expect(idsOf(await one.claim())).toEqual([])
    await sleep(350)
    expect(idsOf(await one.claim())).toEqual(['a2', 'a3'])
  })
})

describe('limits of a queue', () => {
  test('that are new count what is in work already', async () => {
    const testQueue = await env.queue({ batchSize: 10 })
    await push(testQueue, numbered('a', 4))
    const one = await testQueue.claimer()
    await one.claim({ batchSize: 2 })
    expect(await setLimits(testQueue, { concurrency: 3 })).toBe(true)
    expect(await setLimits(testQueue, { concurrency: 3 })).toBe(false)
    expect(idsOf(await one.claim())).toEqual(['a2'])
    expect(await setLimits(testQueue, undefined)).toBe(true)
    expect(idsOf(await one.claim())).toEqual(['a3'])
  })

  test('keep the starts that still count, each for its own window', async () => {
    const limits = { rate: { jobs: 1, per: 60 }, tenant: { rate: { jobs: 9, per: 10 } } }
    const testQueue = await limited(limits, ['a0', 'a1'])
    const one = await testQueue.claimer()
    await one.take()
    const age = () =>
      env.query(
        `UPDATE lockstep.starts SET at = at - interval '1 h 15 s' WHERE queue_id = $1 AND tenant = 'a'`,
        [testQueue.queueId],
      )
    await age()
    expect(await notes(testQueue)).toMatchObject({ starts: 2 })
    await trimLimits(env.database)
    expect(await notes(testQueue)).toMatchObject({ starts: 1 })
    expect(idsOf(await one.claim())).toEqual([])
  })

  test('leave nothing behind', async () => {
    const testQueue = await limited({ concurrency: 1, rate: { jobs: 9, per: 0.05 } }, ['a0', 'a1'])
    await (await testQueue.claimer()).claim()
    await env.query(`UPDATE lockstep.turns SET seen_at = seen_at - interval '2 min'`)
    await sleep(60)
    await trimLimits(env.database)
    expect(await notes(testQueue)).toEqual({ holds: 1, starts: 1, turns: 0 })
    await env.query(`UPDATE lockstep.starts SET at = at - interval '1 h'`)
    await trimLimits(env.database)
    expect(await notes(testQueue)).toEqual({ holds: 1, starts: 0, turns: 0 })
    await setLimits(testQueue, undefined)
    await trimLimits(env.database)
    expect(await notes(testQueue)).toEqual({ holds: 0, starts: 0, turns: 0 })
  })
})

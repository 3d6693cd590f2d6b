import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Limits } from '../../src/limits.ts'
import type { Round } from '../../src/store/claim.ts'
import { replaceSetting } from '../../src/store/queue-setting.ts'
import { LaneDriver } from '../support/lane-driver.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

const PAST = 1_536_323_288_000
/** Jobs of the lane. */
const ALL = 50_100
/** Buffers that a claim may read more than at first: deeper indexes. */
const CONSTANT = 30
/** Those of a thousand dead jobs, each in a page of its own. */
const PIECE = 1_000

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore('plain')
})
afterAll(() => env?.close())
afterEach(() => env.endSessions())

/** Others’ jobs are performed until the lane has been gone through, or so many are done. Returns those of the tenant. */
async function performOthers(driver: LaneDriver, most: number): Promise<Round[]> {
  const kept: Round[] = []
  for (let done = 0; done < most; ) {
    const { rounds } = await driver.claim(Math.min(1_000, most - done))
    if (rounds.length === 0) return kept
    kept.push(...rounds.filter(({ tenant }) => tenant !== null))
    const others = rounds.filter(({ tenant }) => tenant === null)
    if (others.length > 0) await driver.complete(others)
    done += rounds.length
  }
  return kept
}

/** Of so many jobs, one in so many is the tenant’s. */
const push = ({ queueId }: TestQueue, oneIn: number) =>
  env.query(
    `INSERT INTO lockstep.jobs (queue_id, id, shard, lane, perform_in, retry_count, fence, tenant, payload, score)
     SELECT $1, 'id-' || n, 0, 0, to_timestamp($2) + n * interval '1 ms', -1, 0, CASE WHEN n % $4 = 0 THEN 'a' END, '1', 1
     FROM generate_series(0, $3::integer - 1) n`,
    [queueId, PAST / 1_000, ALL, oneIn],
  )

const limit = ({ queueId }: TestQueue, value: Limits) =>
  replaceSetting(env.database, 'limits', [{ queueId, value }])

/** A queue of which a snapshot is held, and a lane whose first jobs have been gone through. */
async function begun(limits: Limits, oneIn: number) {
  const testQueue = await env.queue({ limits })
  await limit(testQueue, limits)
  await push(testQueue, oneIn)
  await env.query('ANALYZE lockstep.jobs')
  const reader = await env.transaction('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await reader.query('SELECT')
  const driver = new LaneDriver(testQueue, await env.process(), await env.session())
  return { testQueue, driver, held: await performOthers(driver, 12 * oneIn) }
}

/** Lets another job of the tenant begin: its first `count` have. */
type Freeing = (driver: LaneDriver, testQueue: TestQueue, held: Round[], count: number) => Promise<unknown>

const CONCURRENCY: Limits = { tenant: { concurrency: 1 } }
const perHour = (jobs: number): Limits => ({ tenant: { rate: { jobs, per: 3_600 } } })
const end: Freeing = (driver, _, held) => driver.complete(held)
const raise: Freeing = (_, testQueue, __, count) => limit(testQueue, perHour(count + 1))

describe('P7 while an old snapshot is held, where a blocked tenant’s jobs wait among thousands that are done', () => {
  test.each<[string, Limits, Freeing, { oneIn: number; until: number; more: number }]>([
    ['concurrency', CONCURRENCY, end, { oneIn: 167, until: 280, more: CONSTANT }],
    ['a rate', perHour(1), raise, { oneIn: 167, until: 280, more: CONSTANT }],
    ['more jobs than a process remembers', CONCURRENCY, end, { oneIn: 42, until: 1_150, more: PIECE }],
  ])(
    'a claim of its next job reads as much as at first: %s',
    async (_, limits, free, { oneIn, until, more }) => {
      const { testQueue, driver, held: first } = await begun(limits, oneIn)
      let held = first
      let count = held.length
      const next = async () => {
        await free(driver, testQueue, held, count)
        driver.lane.withholding.free()
        const read: number[] = []
        do {
          const { result, buffers } = await driver.reading(() => driver.claim(1))
          read.push(buffers)
          held = result.rounds
        } while (held.length === 0 && read.length < 100)
        expect(held.map(({ id }) => id)).toEqual([`id-${oneIn * count}`])
        count += 1
        return Math.max(...read)
      }
      // The first may plan statements.
      const before = Math.min(await next(), await next())
      await performOthers(driver, ALL)
      const after: number[] = []
      while (count < until) after.push(await next())
      expect(Math.max(...after)).toBeLessThan(before + more)
    },
    120_000,
  )

  test('each part of a full look reads as much as at first, finds what was committed late, and they get through', async () => {
    const { testQueue, driver } = await begun(CONCURRENCY, 167)
    const sifted = async () => {
      const found: string[] = []
      const read: number[] = []
      while (driver.lane.region(1)) {
        const { isLast, to } = driver.lane.region(1)!
        const { result, buffers } = await driver.reading(() => driver.sift())
        const [part] = result
        read.push(buffers)
        found.push(...part!.found.map(({ id }) => id))
        driver.lane.sifted([], part!.to ?? (isLast ? undefined : to))
        if (isLast && !part!.to) break
      }
      return { found, read }
    }
    const before = await sifted()
    expect(before.found).toEqual([])
    await performOthers(driver, ALL)
    const late = (id: string, tenant: string) => ({ id, tenant, lane: 0, performIn: PAST + 40_000.5 })
    await testQueue.push(late('of a', 'a'), late('of b', 'b'))
    const after = await sifted()
    expect(after.found).toEqual(['of a', 'of b'])
    expect(Math.max(...after.read)).toBeLessThan(2 * Math.max(...before.read))
    expect(after.read.length).toBeLessThan(80)
  }, 60_000)
})

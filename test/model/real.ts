import type pg from 'pg'
import { checkFairness } from '../../src/fairness.ts'
import { checkLimits, type Limit as RealLimit } from '../../src/limits.ts'
import type { Claim, Round } from '../../src/store/claim.ts'
import { removeExpired } from '../../src/store/expiry.ts'
import { type FoundJob, findJobs } from '../../src/store/jobs.ts'
import { trimLimits } from '../../src/store/limits.ts'
import { replaceSetting } from '../../src/store/queue-setting.ts'
import type { Leftover } from '../../src/store/settle.ts'
import { trimTenantLanes, trimTenants } from '../../src/store/tenants.ts'
import { growOlder } from '../../src/testing/due.ts'
import type { Claimer, TestQueue } from '../support/store-environment.ts'
import { storedPayloads } from '../support/stored-payloads.ts'
import type { Reached } from './tenants.ts'
import { expiryOf, FUTURE, type Limit, type Limits, type Pushed, type Rule, textOf } from './words.ts'

/** Tick 0, in seconds since 1970; a tick is a second. */
const BEGINNING = Date.UTC(2001) / 1000
/** Only the times of "now" are between these. */
const [NOW_AFTER, NOW_BEFORE] = [Date.UTC(2024) / 1000, Date.UTC(2032) / 1000]

/** When payloads expire that do so later. */
const LATER = Date.UTC(2200)

const HOUR = 3_600
const DAY = 24 * HOUR
/** Pushes and starts are whole hours old, but for what a sequence takes. */
const secondsOf = (hours: number) => (hours - 0.5) * HOUR

/** A job's row with its sets. `performIn` is in ticks. */
export interface RealJob {
  readonly id: string
  readonly tenant: string | null
  readonly shard: number
  readonly lane: number
  readonly performIn: number
  readonly nextPerformIn: number | null
  readonly retryCount: number
  readonly crashes: number
  readonly error: string | null
  readonly claimedBy: number | null
  /** The payloads below the fence, and those at it, in the form of `textOf`. */
  readonly set: readonly string[]
  readonly next: readonly string[]
}

/** The product: a queue, processes, and sessions with an open transaction. */
export class Real {
  readonly testQueue: TestQueue
  readonly claimers: Claimer[] = []
  readonly open = new Map<number, pg.Client>()

  constructor(testQueue: TestQueue) {
    this.testQueue = testQueue
  }

  /** As a worker does when it starts. */
  async rule(rules: readonly Rule[]): Promise<void> {
    const { env, queueId } = this.testQueue
    const fairness = rules.length === 0 ? undefined : { window: DAY, rules: rules.map(ruleOf) }
    await replaceSetting(env.database, 'fairness', [{ queueId, value: checkFairness(fairness, 'rules') }])
  }

  /** As a worker does when it starts. */
  async limit({ tenant, ...own }: Limits): Promise<void> {
    const { env, queueId } = this.testQueue
    const limits = checkLimits({ ...limitOf(own), ...(tenant && { tenant: limitOf(tenant) }) }, 'limits')
    await replaceSetting(env.database, 'limits', [{ queueId, value: limits }])
  }

  /** The lane that each of these tenants gets: two transactions that push its first jobs at once might give it two. */
  async settleIn(tenants: readonly string[]): Promise<Map<string, number>> {
    const rows = await this.testQueue.env.query<{ tenant: string; lane: number }>(
      'SELECT tenant, lockstep.tenant_lane($1, tenant) AS lane FROM unnest($2::text[]) AS t(tenant)',
      [this.testQueue.queueId, tenants],
    )
    return new Map(rows.map(({ tenant, lane }) => [tenant, lane]))
  }

  async join(): Promise<void> {
    this.claimers.push(await this.testQueue.claimer())
  }

  /** No process has waited for a place long enough that another would leave it one. */
  async claim(process: number, at: { lane: number; shard: number }): Promise<Claim> {
    await this.testQueue.env.query('DELETE FROM lockstep.turns')
    return this.claimers[process]!.claim(at)
  }

  async pushIn(pushes: readonly Pushed[], tx?: pg.Client): Promise<void> {
    const jobs = pushes.map(({ mark, performIn, lane, expiry, ...push }) => ({
      ...push,
      ...(lane !== undefined && { lane }),
      performIn: momentOf(performIn),
      headers: mark === null ? undefined : { mark },
      expiresIn: momentOfExpiry({ mark, performIn, lane, expiry, ...push }),
    }))
    await (tx ? this.testQueue.pushIn(tx, ...jobs) : this.testQueue.push(...jobs))
  }

  async begin(place: number): Promise<pg.Client> {
    const session = await this.testQueue.env.transaction()
    this.open.set(place, session)
    return session
  }

  async end(place: number, how: 'COMMIT' | 'ROLLBACK'): Promise<void> {
    await this.open.get(place)!.query(how)
    this.open.delete(place)
  }

  /** Every job, with times in ticks. */
  async jobs(): Promise<RealJob[]> {
    const { env, queueId } = this.testQueue
    return env.query<RealJob>(
      `SELECT j.id, j.tenant, j.shard, j.lane, j.retry_count AS "retryCount", j.crashes, j.error, j.claimed_by AS "claimedBy",
         extract(epoch FROM j.perform_in)::float8 - $2 AS "performIn",
         extract(epoch FROM j.next_perform_in)::float8 - $2 AS "nextPerformIn",
         ${setOf('j.claimed_by IS NULL OR p.fence < j.fence')} AS set,
         ${setOf('j.claimed_by IS NOT NULL AND p.fence >= j.fence')} AS next
       FROM lockstep.jobs j WHERE j.queue_id = $1 ORDER BY j.id`,
      [queueId, BEGINNING],
    )
  }

  /** What waits and what is in progress, as `find` shows it. */
  async entries(): Promise<FoundJob[]> {
    const { env, queueId } = this.testQueue
    const page = { by: 'id', direction: 'asc', after: undefined, limit: 100 } as const
    return (await findJobs(env.database, queueId, {}, page, true)).items
  }

  /** The same entries, as the view for people shows them and as they are counted. */
  async counts(): Promise<{ view: number; waiting: number; fresh: number; working: number }> {
    const { env, queue } = this.testQueue
    const [row] = await env.query<{ view: number; waiting: number; fresh: number; working: number }>(
      `SELECT s.waiting, s.fresh, s.working, (SELECT count(*) FROM lockstep.waiting w WHERE w.queue = s.queue) AS view
       FROM lockstep.queue_stats s WHERE s.queue = $1`,
      [queue.name],
    )
    return row!
  }

  /** The limits that are reached, as the view for people shows them. */
  async reached(): Promise<Reached[]> {
    return this.testQueue.env.query<Reached>(
      'SELECT tenant, what, most, used FROM lockstep.limited WHERE queue = $1 ORDER BY tenant NULLS FIRST, what',
      [this.testQueue.queue.name],
    )
  }

  async trim(): Promise<void> {
    const { database } = this.testQueue.env
    await trimTenants(database)
    await trimTenantLanes(database, [this.testQueue.queueId])
    await trimLimits(database)
  }

  /** Payload rows whose job is gone, or does not know of them. */
  async strays(): Promise<unknown[]> {
    return this.testQueue.env.query(
      `SELECT p.* FROM lockstep.payloads p LEFT JOIN lockstep.jobs j ON j.queue_id = p.queue_id AND j.id = p.job_id
       WHERE p.queue_id = $1 AND j.has_payloads IS NOT TRUE`,
      [this.testQueue.queueId],
    )
  }

  async dead(): Promise<string[]> {
    const rows = await this.testQueue.env.query<{ line: string }>(
      `SELECT format('%s of %s: %s[%s]%s %s %s', job_id, coalesce(tenant, 'nobody'), payload #>> '{}', score, headers ->> 'mark', error,
         (SELECT string_agg(format('(%s %s %s)', a.one ->> 'kind', a.one ->> 'retry_count', coalesce(a.one ->> 'error', 'null')), '' ORDER BY a.place)
          FROM jsonb_array_elements(lockstep.shown_attempts(attempts, error)) WITH ORDINALITY AS a(one, place))) AS line
       FROM lockstep.morgue WHERE queue_id = $1`,
      [this.testQueue.queueId],
    )
    return rows.map(({ line }) => line).sort()
  }

  /** Replaces the time that the product took for "now" by the model's tick, so that every later order is certain. */
  async settle(id: string, column: 'perform_in' | 'next_perform_in', tick: number): Promise<void> {
    await this.testQueue.env.query(
      `UPDATE lockstep.jobs SET ${column} = to_timestamp($3) WHERE queue_id = $1 AND id = $2`,
      [this.testQueue.queueId, id, BEGINNING + tick],
    )
  }

  /** All that expires of a job that waits has expired. */
  letExpire(id: string): Promise<void> {
    return this.testQueue.letExpire(id)
  }

  async sweep(): Promise<void> {
    await removeExpired(this.testQueue.env.database, [], 1_000)
  }

  async passTime(): Promise<void> {
    await growOlder(this.testQueue.env.database, [this.testQueue.queueId], HOUR * 1000)
    for (const column of ['perform_in', 'next_perform_in']) {
      await this.testQueue.env.query(
        `UPDATE lockstep.jobs SET ${column} = ${column} - $3 * interval '1 second'
         WHERE queue_id = $1 AND ${column} >= to_timestamp($2)`,
        [this.testQueue.queueId, BEGINNING + FUTURE, FUTURE],
      )
    }
  }
}

function ruleOf({ over, within, lane }: Rule) {
  return { over, per: secondsOf(within), lane }
}

function limitOf({ concurrency, rate }: Limit): RealLimit {
  return {
    ...(concurrency && { concurrency }),
    ...(rate && { rate: { jobs: rate.jobs, per: secondsOf(rate.within) } }),
  }
}

/** One text for each payload of a set, with equal payloads folded. */
function setOf(condition: string): string {
  return `ARRAY(
    SELECT CASE WHEN f.has_expired THEN f.payload || '!' ELSE
      f.payload || '[' || f.score || ']' || coalesce(f.mark, '') || CASE WHEN f.latest < 'infinity' THEN '~' ELSE '' END END
    FROM (
      SELECT DISTINCT ON (p.digest) p.payload #>> '{}' AS payload, p.score, p.seq, p.has_expired,
        first_value(p.headers ->> 'mark') OVER (PARTITION BY p.digest ORDER BY p.has_expired, p.fence) AS mark,
        max(coalesce(p.expires_in, 'infinity')) OVER (PARTITION BY p.digest) AS latest
      FROM (SELECT s.*, (s.expires_in <= clock_timestamp()) IS TRUE AS has_expired FROM ${storedPayloads()} s) p
      WHERE p.queue_id = j.queue_id AND p.job_id = j.id AND (${condition}) ORDER BY p.digest, p.has_expired, p.score, p.seq
    ) f ORDER BY f.score, f.seq)`
}

/** Far away, or as soon as the payload was due, long ago. */
function momentOfExpiry(push: Pushed): number | undefined {
  const expiry = expiryOf(push)
  if (expiry === 'never') return undefined
  return expiry === 'later' ? LATER : momentOf(push.performIn)
}

export function momentOf(tick: number): number {
  return (BEGINNING + tick) * 1000
}

/** Whether the time came from the clock, with or without a delay of `FUTURE`. */
export function isNow(tick: number): boolean {
  const seconds = BEGINNING + tick
  return (
    (seconds > NOW_AFTER && seconds < NOW_BEFORE) ||
    (seconds > NOW_AFTER + FUTURE && seconds < NOW_BEFORE + FUTURE)
  )
}

export function handed(round: Round): string[] {
  return round.payloads.map((payload, place) => {
    const mark = (round.headers?.[place]?.mark ?? null) as string | null
    const expiry = (round.expiries?.[place] ?? null) === null ? 'never' : 'later'
    return textOf({ payload: payload as string, score: round.scores[place]!, mark, expiry })
  })
}

export function answerFor(leftovers: readonly Leftover[], id: string): string | undefined {
  return leftovers.find((exception) => exception.id === id)?.outcome
}

import type { Database } from '../postgres/database.ts'
import type { JobPayloadTexts, PayloadText } from '../store/excerpt.ts'
import type { FoundJob, JobFilter, JobSort } from '../store/jobs.ts'
import { type QueueMinute, readLastHour, readMinutes } from '../store/minutes.ts'
import type { DeadFilter, DeadSort, KeyedDead } from '../store/morgue.ts'
import type { Found, Page } from '../store/page.ts'
import { type QueueParts, readParts } from '../store/parts.ts'
import type { TenantList } from '../store/tenant-list.ts'
import { checkDeadFilter, checkJobFilter } from './filter.ts'
import { deadPage, jobPage } from './pages.ts'
import { resolveQueue } from './queues.ts'
import { tenants } from './tenants.ts'

/** How much of payloads is read, since a job may have any number, of 8 MiB each. */
export interface Extent {
  /** The most payloads of a job, those with the lowest scores. */
  readonly payloads: number
  /** The most characters of a payload's text; undefined: all. */
  readonly length: number | undefined
  /** Whether failed attempts are read, too. */
  readonly attempts: boolean
}

export type JobTexts = Omit<FoundJob, 'payloads'> & { readonly payloads: JobPayloadTexts }
export type DeadText = KeyedDead<PayloadText>

/** Loads the store only on demand: it needs Kysely, which producers and workers do not load. */
const loadJobs = () => import('../store/jobs.ts')
const loadMorgue = () => import('../store/morgue.ts')
const loadExcerpt = () => import('../store/excerpt.ts')

/** What a page about the queues shows beyond what applications ask for. `watch` keeps `close()` waiting for a call. */
export class Insight {
  readonly #database: Database
  readonly #watch: <T>(call: Promise<T>) => Promise<T>

  constructor(database: Database, watch: <T>(call: Promise<T>) => Promise<T>) {
    this.#database = database
    this.#watch = watch
  }

  /** As `find`, with the JSON texts of payloads: numbers beyond 2^53 have all their digits. */
  jobs(queue: string, filter: JobFilter & Page<JobSort>, extent: Extent): Promise<Found<JobTexts>> {
    return this.#watch(this.#jobs(queue, filter, extent))
  }

  async #jobs(queue: string, filter: JobFilter & Page<JobSort>, extent: Extent): Promise<Found<JobTexts>> {
    const page = jobPage(filter)
    const [{ queueId }, { findJobsAs }, { excerptsOf }] = await Promise.all([
      resolveQueue(this.#database, queue),
      loadJobs(),
      loadExcerpt(),
    ])
    const show = (payloads: Parameters<typeof excerptsOf>[0]) =>
      excerptsOf(payloads, extent.payloads, extent.length)
    return findJobsAs(this.#database, queueId, filter, page, show, extent.attempts)
  }

  /** As `findDead`, with the JSON texts of payloads. */
  dead(
    queue: string,
    filter: DeadFilter & Page<DeadSort>,
    extent: Omit<Extent, 'payloads'>,
  ): Promise<Found<DeadText>> {
    return this.#watch(this.#dead(queue, filter, extent))
  }

  async #dead(
    queue: string,
    filter: DeadFilter & Page<DeadSort>,
    { length, attempts }: Omit<Extent, 'payloads'>,
  ): Promise<Found<DeadText>> {
    const page = deadPage(filter)
    const [{ queueId }, { findDeadByKeys }, { excerptOf }] = await Promise.all([
      resolveQueue(this.#database, queue),
      loadMorgue(),
      loadExcerpt(),
    ])
    const show = (payload: Parameters<typeof excerptOf>[0]) => excerptOf(payload, length)
    return findDeadByKeys(this.#database, queueId, filter, page, show, attempts)
  }

  /** The number of jobs that match, as `find` would find them, but no more than `most`. */
  async countJobs(queue: string, filter: JobFilter, most: number): Promise<number> {
    checkJobFilter(filter, 'count')
    const counting = Promise.all([resolveQueue(this.#database, queue), loadJobs()]).then(
      ([{ queueId }, { countJobs }]) => countJobs(this.#database, queueId, filter, most),
    )
    return this.#watch(counting)
  }

  /** The number of dead payloads that match, but no more than `most`. */
  async countDead(queue: string, filter: DeadFilter, most: number): Promise<number> {
    checkDeadFilter(filter, 'count')
    const counting = Promise.all([resolveQueue(this.#database, queue), loadMorgue()]).then(
      ([{ queueId }, { countDeadUpTo }]) => countDeadUpTo(this.#database, queueId, filter, most),
    )
    return this.#watch(counting)
  }

  /** The number of ids with dead payloads, by queue. */
  deadIds(): Promise<Map<string, number>> {
    return this.#watch(loadMorgue().then(({ countDeadIds }) => countDeadIds(this.#database)))
  }

  /** Shards and lanes of a queue. Counts all its jobs. */
  parts(queue: string): Promise<QueueParts> {
    const reading = resolveQueue(this.#database, queue).then(({ queueId }) =>
      readParts(this.#database, queueId),
    )
    return this.#watch(reading)
  }

  /** As `lockstep.tenants`. */
  tenants(queue: string): Promise<TenantList> {
    return this.#watch(tenants(this.#database, queue, {}))
  }

  /** What was done in the minutes of the last day. */
  minutes(queue: string): Promise<QueueMinute[]> {
    const reading = resolveQueue(this.#database, queue).then(({ name }) => readMinutes(this.#database, name))
    return this.#watch(reading)
  }

  /** What was done in the minutes of the last hour, by queue; without those in which nothing was. */
  lastHour(): Promise<Map<string, QueueMinute[]>> {
    return this.#watch(readLastHour(this.#database))
  }

  /** @throws LockstepError `LOCKSTEP_UNKNOWN_QUEUE` */
  async requireQueue(queue: string): Promise<void> {
    await this.#watch(resolveQueue(this.#database, queue))
  }
}

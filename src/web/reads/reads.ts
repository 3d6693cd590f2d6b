import type { Insight, JobTexts } from '../../admin/insight.ts'
import { Rates } from '../../admin/rates.ts'
import type {
  AuditEntry,
  AuditOptions,
  DeadFilter,
  DeadPayload,
  DeadSort,
  Found,
  FoundJob,
  JobFilter,
  JobSort,
  Lockstep,
  Page,
  PayloadHeaders,
  ProcessRow,
  QueueStats,
  Stats,
  TenantList,
} from '../../index.ts'
import { LockstepError } from '../../index.ts'
import { type Aged, Shared, SharedByQueue } from '../../serving/shared.ts'
import type { QueueMinute } from '../../store/minutes.ts'
import type { QueueParts } from '../../store/parts.ts'
import type { Redaction, ShownPayload } from './redaction.ts'

/** How much of payloads is shown. */
export interface Extent {
  /** The most payloads of a job, those with the lowest scores. */
  readonly payloads: number
  /** The most characters of a payload's text. */
  readonly length: number
  /** Whether failed attempts are shown. Default false. */
  readonly attempts?: boolean
}

export interface ShownJobPayload extends ShownPayload {
  readonly score: number
  readonly headers: PayloadHeaders | null
  /** Null: never. */
  readonly expiresIn: Date | null
}

export type ShownJob = Omit<FoundJob, 'payloads'> & {
  readonly payloads: { readonly count: number; readonly first: readonly ShownJobPayload[] }
}
/** Without its digest, from which a short payload can be guessed: its key names it. */
export type ShownDead = Omit<DeadPayload, 'payload' | 'digest'> & {
  readonly payload: ShownPayload
  readonly key: string
}

/** A number of matches, exact up to a bound. */
export interface Count {
  readonly count: number
  /** There are more than `count`. */
  readonly more: boolean
}

/** The state of all queues. */
export interface Overview extends Stats {
  /** The number of ids with dead payloads, by queue; those without are missing. */
  readonly deadIds: ReadonlyMap<string, number>
}

const COUNTED = 100_000

/**
 * All that the page and its API show. What is expensive is shared between requests (see Shared). Every payload has gone
 * through the application's `redact`.
 */
export class Reads {
  readonly #lockstep: Lockstep
  readonly #insight: Insight
  readonly #redaction: Redaction
  readonly #overview: Shared<Overview>
  readonly #counted = new Rates()
  #rates: ReadonlyMap<string, number> = new Map()
  readonly #processes: Shared<ProcessRow[]>
  readonly #parts = new SharedByQueue((queue) => this.#insight.parts(queue))
  readonly #tenants = new SharedByQueue((queue) => this.#insight.tenants(queue))

  constructor(lockstep: Lockstep, insight: Insight, redaction: Redaction) {
    this.#lockstep = lockstep
    this.#insight = insight
    this.#redaction = redaction
    this.#overview = new Shared(() => this.#readOverview())
    this.#processes = new Shared(() => lockstep.processes())
  }

  /** Shared: up to two hundred times as old as it took to read, at least 1 s. So are the four below. */
  overview(): Promise<Aged<Overview>> {
    return this.#overview.get()
  }

  /** One after the other, so that the time they take tells what they cost. */
  async #readOverview(): Promise<Overview> {
    const stats = await this.#lockstep.stats()
    this.#rates = this.#counted.after(stats.queues, performance.now())
    return { ...stats, deadIds: await this.#insight.deadIds() }
  }

  /** The state of one queue, also of a new one. @throws LockstepError `LOCKSTEP_UNKNOWN_QUEUE` */
  async queue(name: string): Promise<Aged<QueueStats>> {
    const shared = await this.overview()
    if (!isIn(shared, name)) {
      // Who asks for what does not exist must not make everything be read anew.
      await this.#insight.requireQueue(name)
      this.#overview.forget()
    }
    const { at, value } = isIn(shared, name) ? shared : await this.overview()
    const found = value.queues.find(({ queue }) => queue === name)
    if (found) return { at, value: found }
    throw new LockstepError('LOCKSTEP_UNKNOWN_QUEUE', 'the queue was deleted a moment ago')
  }

  /** After an action: what is shown next has its effect. */
  forget(): void {
    for (const shared of [this.#overview, this.#processes, this.#parts, this.#tenants]) shared.forget()
  }

  /** Rounds a second by queue, between the last times that the overview was read; empty after the first. */
  rates(): ReadonlyMap<string, number> {
    return this.#rates
  }

  processes(): Promise<Aged<ProcessRow[]>> {
    return this.#processes.get()
  }

  /** Shards and lanes. */
  parts(queue: string): Promise<Aged<QueueParts>> {
    return this.#parts.get(queue)
  }

  /** Those for whom most waits. */
  tenants(queue: string): Promise<Aged<TenantList>> {
    return this.#tenants.get(queue)
  }

  /** The minutes of the last day in which rounds ended, the oldest first. */
  minutes(queue: string): Promise<QueueMinute[]> {
    return this.#insight.minutes(queue)
  }

  /** Those of the last hour, of all queues in which any ended. */
  lastHour(): Promise<ReadonlyMap<string, readonly QueueMinute[]>> {
    return this.#insight.lastHour()
  }

  /** What people did, the newest first. */
  audit(options: AuditOptions): Promise<AuditEntry[]> {
    return this.#lockstep.audit(options)
  }

  /** @throws OptionError, or LockstepError `LOCKSTEP_UNKNOWN_QUEUE`, like all below */
  async jobs(queue: string, filter: JobFilter & Page<JobSort>, extent: Extent): Promise<Found<ShownJob>> {
    const { payloads, length, attempts = false } = extent
    const found = await this.#insight.jobs(queue, filter, {
      payloads,
      length: this.#redaction.extent(length),
      attempts,
    })
    return { ...found, items: found.items.map((job) => this.#shownJob(queue, job, length)) }
  }

  #shownJob(queue: string, { payloads, ...job }: JobTexts, length: number): ShownJob {
    const first = payloads.first.map(({ score, headers, expiresIn, ...text }) => ({
      ...this.#redaction.show(text, { queue, id: job.id }, length),
      score,
      headers,
      expiresIn: expiresIn === null ? null : new Date(expiresIn),
    }))
    return { ...job, payloads: { count: payloads.count, first } }
  }

  async dead(
    queue: string,
    filter: DeadFilter & Page<DeadSort>,
    { length, attempts = false }: Omit<Extent, 'payloads'>,
  ): Promise<Found<ShownDead>> {
    const found = await this.#insight.dead(queue, filter, {
      length: this.#redaction.extent(length),
      attempts,
    })
    const items = found.items.map(({ payload, ...dead }) => ({
      ...dead,
      payload: this.#redaction.show(payload, { queue, id: dead.id }, length),
    }))
    return { ...found, items }
  }

  /** Exact up to 100,000. */
  async countJobs(queue: string, filter: JobFilter): Promise<Count> {
    return bounded(await this.#insight.countJobs(queue, filter, COUNTED + 1))
  }

  /** Exact up to 100,000. */
  async countDead(queue: string, filter: DeadFilter): Promise<Count> {
    return bounded(await this.#insight.countDead(queue, filter, COUNTED + 1))
  }
}

function isIn({ value }: Aged<Stats>, name: string): boolean {
  return value.queues.some(({ queue }) => queue === name)
}

function bounded(count: number): Count {
  return count > COUNTED ? { count: COUNTED, more: true } : { count, more: false }
}

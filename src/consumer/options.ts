import { LockstepError, OptionError } from '../errors.ts'
import type { JobInWork } from '../job.ts'
import type { Json } from '../json.ts'
import {
  isPlain,
  optionalFunction,
  optionalSignal,
  rejectUnknownOptions,
  show,
  storableText,
  wholeNumber,
} from '../options.ts'
import { checkKeepResult, defineQueue, isQueue, type Queue } from '../queue.ts'
import { storableResult } from '../storable-json.ts'
import type { KeptResult } from '../store/results.ts'
import { isWeight, LEAST_WEIGHT, MOST_WEIGHT } from '../worker/schedule/weight.ts'

export interface ConsumerOptions {
  /**
   * Definitions of queues that say how often their jobs are tried again, when, and how much a round takes. A queue that is only
   * named has the defaults. `maxRetryCount` must be a number.
   */
  readonly queues?: readonly Queue[]
  /**
   * The name of a header in which a job says how often it may be handed over, from 1: that is one more than its
   * `maxRetryCount`, and counts instead of the queue's. Default: none.
   */
  readonly triesHeader?: string
  /** ms between regular full looks while claims wait; up to five times as long if they are slow. Default 1,000. */
  readonly poll?: number
  /** Returns the text to store for an error given to `fail`. Default: its stack and causes, or what was given as text. */
  formatError?(error: unknown): string
}

export interface ClaimOptions<P = unknown, Handed = unknown> {
  /**
   * One queue, or several in order: jobs of a queue come before those of the next. Or names with weights from 0.001 to 1,000, by
   * which the order is drawn for each claim. A queue that doesn't exist is created.
   */
  readonly queues:
    | Queue<P, Handed>
    | string
    | readonly (Queue<P, Handed> | string)[]
    | Readonly<Record<string, number>>
  /** Most jobs to claim, up to 1,000. Their payloads have 32 MiB at most, as JSON text, unless one job has more. Default 1. */
  readonly count?: number
  /** ms until the claim ends unless it's extended or settled, up to a week. Default 30,000. */
  readonly lease?: number
  /** ms to wait for a job if there is none; one day at most. Default 0. */
  readonly wait?: number
  /** Ends the wait. Nothing is claimed for a claim that was aborted before. */
  readonly signal?: AbortSignal | undefined
}

/** Proves a claim, in whichever process it was made. */
export interface ClaimReference {
  readonly queue: string
  readonly id: string
  readonly fence: number
}

/** A claimed job with its payloads. */
export interface ClaimedJob<Payload = unknown> extends JobInWork<Payload>, ClaimReference {
  readonly id: string
  readonly fence: number
}

export type ClaimedJobs<P> = ClaimedJob<Json<P>>[]

export interface CompleteOptions {
  /** What the job has come to, for whoever waits for it: any JSON. Default: no result is kept. */
  readonly result?: unknown
  /** Seconds for which the result is kept. Default: what the queue's definition says, or else 3,600. */
  readonly keepResult?: number
}

export interface FailOptions {
  /** Seconds until the next try, if one follows. Default: what the queue's definition says. */
  readonly retryIn?: number
}

/** The options with every default filled in. */
export interface ConsumerSettings {
  readonly queues: ReadonlyMap<string, Queue>
  /** Makes the definition of a queue that is only named. */
  readonly define: (name: string) => Queue
  readonly triesHeader: string | undefined
  readonly poll: number
  readonly formatError: ((error: unknown) => string) | undefined
}

/** A request with every default filled in. */
export interface ClaimSettings {
  /** In the order in which they are looked at. */
  readonly queues: readonly Queue[]
  readonly count: number
  readonly lease: number
  readonly wait: number
  readonly signal: AbortSignal | undefined
}

const DEFAULT_POLL = 1_000
const DEFAULT_LEASE = 30_000
const MOST_JOBS = 1_000
const A_DAY = 24 * 3600 * 1000
/** Seconds. */
const DEFAULT_KEPT = 3_600
const MAX_SECONDS = 100 * 365 * 24 * 3600

/** @throws OptionError, or LockstepError `LOCKSTEP_BAD_QUEUE` */
export function consumerSettings(
  options: ConsumerOptions,
  define: ConsumerSettings['define'] = defineQueue,
): ConsumerSettings {
  rejectUnknownOptions(options, ['queues', 'triesHeader', 'poll', 'formatError'], 'consumer')
  const { queues = [], triesHeader, poll = DEFAULT_POLL, formatError } = options
  if (triesHeader !== undefined && (typeof triesHeader !== 'string' || triesHeader === ''))
    throw new OptionError(`consumer: triesHeader must be the name of a header, not ${show(triesHeader)}`)
  if (!Array.isArray(queues)) throw badQueue('`queues` must be a list of what defineQueue() returns')
  const byName = new Map<string, Queue>()
  for (const queue of queues) {
    if (!isQueue(queue)) throw badQueue(`\`queues\` takes what defineQueue() returns, not ${show(queue)}`)
    requireNumber(queue)
    byName.set(queue.name, queue)
  }
  return {
    queues: byName,
    define,
    triesHeader,
    poll: wholeNumber(poll, 10, A_DAY, 'consumer: poll'),
    formatError: optionalFunction(formatError, 'consumer: formatError'),
  }
}

/** @throws OptionError, or LockstepError `LOCKSTEP_BAD_QUEUE` */
export function claimSettings(options: ClaimOptions, { queues, define }: ConsumerSettings): ClaimSettings {
  rejectUnknownOptions(options, ['queues', 'count', 'lease', 'wait', 'signal'], 'claim')
  const { count = 1, lease = DEFAULT_LEASE, wait = 0, signal } = options
  return {
    queues: orderOf(options.queues).map((queue) => {
      if (typeof queue !== 'string') return queues.get(queue.name) ?? queue
      return queues.get(queue) ?? define(queue)
    }),
    count: wholeNumber(count, 1, MOST_JOBS, 'claim: count'),
    lease: checkLease(lease, 'claim'),
    wait: wholeNumber(wait, 0, A_DAY, 'claim: wait'),
    signal: optionalSignal(signal, 'claim: signal'),
  }
}

/** @throws OptionError */
export function checkLease(lease: unknown, what: string): number {
  return wholeNumber(lease, 0, 7 * A_DAY, `${what}: lease`)
}

/** @throws OptionError */
export function checkReference(claim: ClaimReference, what: string): ClaimReference {
  if (typeof claim !== 'object' || claim === null)
    throw new OptionError(
      `${what} takes a claimed job, or an object such as { queue, id, fence }, not ${show(claim)}`,
    )
  const { queue, id, fence } = claim
  if (typeof queue !== 'string')
    throw new OptionError(`${what}: queue must be the name of a queue, not ${show(queue)}`)
  if (typeof id !== 'string') throw new OptionError(`${what}: id must be text, not ${show(id)}`)
  // It would fail those that go to the database together with it.
  for (const [name, text] of Object.entries({ queue, id })) storableText(text, `${what}: ${name}`)
  wholeNumber(fence, 0, Number.MAX_SAFE_INTEGER, `${what}: fence`)
  return claim
}

/**
 * `byDefault`: what the queue's definition says.
 * @throws OptionError; LockstepError `LOCKSTEP_BAD_RESULT`
 */
export function checkCompleteOptions(
  options: CompleteOptions,
  byDefault = DEFAULT_KEPT,
): KeptResult | undefined {
  rejectUnknownOptions(options, ['result', 'keepResult'], 'complete')
  const seconds = checkKeepResult(options.keepResult, 'complete: keepResult') ?? byDefault
  if (options.result === undefined) return undefined
  const bad = (problem: string) => new LockstepError('LOCKSTEP_BAD_RESULT', `complete: result ${problem}`)
  return { json: storableResult(options.result, bad), seconds }
}

/** @throws OptionError */
export function checkFailOptions(options: FailOptions): number | undefined {
  rejectUnknownOptions(options, ['retryIn'], 'fail')
  const { retryIn } = options
  if (retryIn === undefined) return undefined
  if (typeof retryIn === 'number' && retryIn >= 0 && retryIn <= MAX_SECONDS) return retryIn
  throw new OptionError(
    `fail: retryIn must be a number of seconds from 0 to ${MAX_SECONDS}, not ${show(retryIn)}`,
  )
}

/** The queues, or their names, in the order in which this claim looks at them. */
function orderOf(queues: ClaimOptions['queues']): (Queue | string)[] {
  if (typeof queues === 'string' || isQueue(queues)) return [checkedQueue(queues)]
  const isList = Array.isArray(queues)
  if ((isList || isPlain(queues)) && Object.keys(queues).length === 0)
    throw badQueue('a claim needs at least one queue in `queues`')
  if (isList) return [...new Map(queues.map((queue) => [nameOf(checkedQueue(queue)), queue])).values()]
  if (!isPlain(queues))
    throw badQueue(`\`queues\` takes queues or their names, or an object of weights, not ${show(queues)}`)
  return drawn(Object.entries(queues as Readonly<Record<string, number>>))
}

/** Drawn by weight, without replacement: the least of exponential waits comes first (Efraimidis and Spirakis, 2006). */
function drawn(weights: readonly (readonly [string, number])[]): string[] {
  for (const [name, weight] of weights)
    if (!isWeight(weight))
      throw new OptionError(
        `claim: the weight of "${name}" must be a number from ${LEAST_WEIGHT} to ${MOST_WEIGHT}, not ${show(weight)}`,
      )
  const waits = weights.map(([name, weight]) => [name, -Math.log(1 - Math.random()) / weight] as const)
  return waits.sort(([, a], [, b]) => a - b).map(([name]) => name)
}

function checkedQueue(queue: Queue | string): Queue | string {
  if (typeof queue === 'string') return queue
  if (!isQueue(queue)) throw badQueue(`\`queues\` takes queues or their names, not ${show(queue)}`)
  requireNumber(queue)
  return queue
}

function nameOf(queue: Queue | string): string {
  return typeof queue === 'string' ? queue : queue.name
}

/** @throws LockstepError `LOCKSTEP_BAD_QUEUE` */
function requireNumber({ name, maxRetryCount }: Queue): void {
  if (typeof maxRetryCount !== 'number')
    throw badQueue(
      `queue "${name}" has a function as \`maxRetryCount\`, which can’t be asked where a lease ends: give a number`,
    )
}

function badQueue(message: string): LockstepError {
  return new LockstepError('LOCKSTEP_BAD_QUEUE', message)
}

import type { ClientBase } from 'pg'
import { LockstepError } from './errors.ts'
import type { JobInfo } from './job.ts'
import type { Logger } from './logger.ts'
import { optionalFunction, rejectUnknownOptions, show, wholeNumber } from './options.ts'
import { defaultRetryIn } from './retry.ts'

/** The ids of a batch, each with all its payloads in score order. */
export type Batch<Payload> = ReadonlyMap<string, readonly Payload[]>

export interface PerformContext {
  /** Aborted at the timeout, when the worker stops for good, and when the process lost its lease. */
  readonly signal: AbortSignal
  readonly jobs: ReadonlyMap<string, JobInfo>
  readonly logger: Logger
  /**
   * Fails this id of the batch and spares the rest. In a transaction, what was written for it is committed with theirs:
   * write it after a savepoint, and roll back to that first.
   */
  fail(id: string, error: unknown): void
}

export interface TransactionalContext extends PerformContext {
  /**
   * The transaction that also completes the batch. Don't commit or roll it back, nor release its client; savepoints are
   * fine. Where a statement failed and the handler goes on, it has to roll back to one: left aborted, nothing of the
   * transaction is stored. When the signal is aborted, its connection ends, and a statement under way rejects.
   */
  readonly tx: ClientBase
}

interface Policy {
  /**
   * Parts that can be worked on side by side; for a queue that is new. Default 16. A worker whose definition names more than
   * the queue has grows it at its start; fewer changes nothing, nor does a definition that names none: see `reshard`.
   */
  readonly shards?: number
  /** Ids a handler gets at once at most. Default 1. */
  readonly batchSize?: number
  /** Payloads one round takes of an id at most: the lowest scores. Default: all. */
  readonly maxPayloads?: number
  /**
   * Bytes of payloads, as JSON text, that one round takes of an id at most: the lowest scores, one payload at least; what is
   * left follows in the next round. In memory they take several times as much. Default 4 MiB.
   */
  readonly maxBytes?: number
  /** Retries before the lowest payload dies; 0 means one run. Default 25. */
  readonly maxRetryCount?: number
  /** Crashes in a row before a round counts as failed. Default 3. */
  readonly maxCrashes?: number
  /** Batches of the queue that a process has in work at once at most. Default: as many as it has slots. */
  readonly concurrency?: number
  /** ms until the batch's signal is aborted. Default: none. */
  readonly timeout?: number
  /** Seconds until the next try; `retryCount` is 0 after the first failure. Default: `defaultRetryIn`. */
  retryIn?(retryCount: number): number
}

export interface QueueOptions<Payload> extends Policy {
  readonly transactional?: false
  /** Needed by workers alone: a producer's definition may leave it out. */
  perform?(batch: Batch<Payload>, context: PerformContext): unknown
}

export interface TransactionalQueueOptions<Payload> extends Policy {
  /** The handler's writes through `context.tx` and the completion are one transaction: exactly once. */
  readonly transactional: true
  perform?(batch: Batch<Payload>, context: TransactionalContext): unknown
}

/** A queue as `defineQueue` makes it: every default filled in. */
export interface Queue<Payload = unknown>
  extends Required<Omit<Policy, 'maxPayloads' | 'timeout' | 'concurrency'>> {
  readonly name: string
  /** @internal `shards`, where the definition names them: a queue is not grown to a default. */
  readonly namedShards: number | undefined
  readonly maxPayloads: number | undefined
  readonly concurrency: number | undefined
  readonly timeout: number | undefined
  readonly transactional: boolean
  perform?(batch: Batch<Payload>, context: TransactionalContext): unknown
}

/** So that sixteen processes share a queue for which nobody has set anything. */
export const DEFAULT_SHARDS = 16
const DEFAULT_BATCH_SIZE = 1
const DEFAULT_MAX_BYTES = 4 * 1024 * 1024
const DEFAULT_MAX_RETRY_COUNT = 25
const DEFAULT_MAX_CRASHES = 3
/** A shard's number in an advisory lock has room for so many. */
export const MAX_SHARDS = 16_384
const MAX_BATCH_SIZE = 10_000
const MAX_INTEGER = 2 ** 31 - 1
const MAX_NAME_BYTES = 255

const OPTIONS = [
  'shards',
  'batchSize',
  'maxPayloads',
  'maxBytes',
  'maxRetryCount',
  'maxCrashes',
  'concurrency',
  'timeout',
  'retryIn',
  'transactional',
  'perform',
]

/**
 * Defines a queue; nothing is stored until it is used.
 * @throws LockstepError `LOCKSTEP_BAD_QUEUE` for a bad name, OptionError for a bad option
 */
export function defineQueue<Payload = unknown>(
  name: string,
  options: TransactionalQueueOptions<Payload>,
): Queue<Payload>
export function defineQueue<Payload = unknown>(name: string, options?: QueueOptions<Payload>): Queue<Payload>
export function defineQueue<Payload>(
  name: string,
  options: QueueOptions<Payload> | TransactionalQueueOptions<Payload> = {},
): Queue<Payload> {
  checkQueueName(name)
  const what = `queue "${name}"`
  rejectUnknownOptions(options, OPTIONS, what)
  const whole = (key: keyof typeof options, min: number, max: number, fallback: number) =>
    wholeNumber(options[key] ?? fallback, min, max, `${what}: ${key}`)
  return Object.freeze({
    name,
    shards: whole('shards', 1, MAX_SHARDS, DEFAULT_SHARDS),
    namedShards: options.shards ?? undefined,
    batchSize: whole('batchSize', 1, MAX_BATCH_SIZE, DEFAULT_BATCH_SIZE),
    maxBytes: whole('maxBytes', 1, MAX_INTEGER, DEFAULT_MAX_BYTES),
    maxRetryCount: whole('maxRetryCount', 0, MAX_INTEGER, DEFAULT_MAX_RETRY_COUNT),
    maxCrashes: whole('maxCrashes', 1, 32_767, DEFAULT_MAX_CRASHES),
    maxPayloads: options.maxPayloads === undefined ? undefined : whole('maxPayloads', 1, MAX_INTEGER, 1),
    concurrency: options.concurrency === undefined ? undefined : whole('concurrency', 1, MAX_INTEGER, 1),
    timeout: options.timeout === undefined ? undefined : whole('timeout', 1, MAX_INTEGER, 1),
    transactional: options.transactional ?? false,
    retryIn: optionalFunction(options.retryIn, `${what}: retryIn`) ?? defaultRetryIn,
    perform: optionalFunction(options.perform, `${what}: perform`) as Queue<Payload>['perform'],
  })
}

/** @throws LockstepError `LOCKSTEP_BAD_QUEUE` unless `name` is text of 1 to 255 bytes that Postgres can hold. */
function checkQueueName(name: unknown): asserts name is string {
  const problem =
    typeof name !== 'string'
      ? `must be text, not ${show(name)}`
      : name === ''
        ? 'must not be empty'
        : Buffer.byteLength(name) > MAX_NAME_BYTES
          ? `must be at most ${MAX_NAME_BYTES} bytes, not ${Buffer.byteLength(name)}`
          : name.includes('\u0000') || !name.isWellFormed()
            ? 'must be well-formed text without \\u0000'
            : undefined
  if (problem) throw new LockstepError('LOCKSTEP_BAD_QUEUE', `the name of a queue ${problem}`)
}

export function isQueue(value: unknown): value is Queue {
  return (
    typeof value === 'object' && value !== null && 'name' in value && 'retryIn' in value && 'shards' in value
  )
}

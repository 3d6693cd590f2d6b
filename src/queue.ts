import type { ClientBase } from 'pg'
import { LockstepError, OptionError } from './errors.ts'
import { type CheckedFairness, checkFairness } from './fairness.ts'
import type { Batch, Death, PerformContext, Transactions } from './handler.ts'
import type { JobInWork, NewJob } from './job.ts'
import type { Json } from './json.ts'
import { checkLimits, type Limits } from './limits.ts'
import {
  isStorable,
  nameOf,
  optionalFunction,
  rejectUnknownOptions,
  STORABLE_TEXT,
  show,
  wholeNumber,
} from './options.ts'
import type { Policy, QueueOptions, TransactionalQueueOptions, Validation } from './queue-options.ts'
import { defaultRetryIn } from './retry.ts'
import { optionalSchema, type StandardSchema } from './schema.ts'

interface Own {
  readonly transactional: true
}
interface Application<Tx> {
  readonly transactional: Transactions<Tx>
}
type Schema<Payload, Handed> = Required<Validation<Payload, Handed>>

// biome-ignore lint/suspicious/noExplicitAny: a queue of one type of payloads is a queue of unknown ones
type PerJob<Value> = (job: JobInWork<any>) => Value
// biome-ignore lint/suspicious/noExplicitAny: as above
type AnyJob = NewJob<any>

/** The result of `defineQueue`, with every default filled in. */
export interface Queue<Payload = unknown, Handed = Json<Payload>>
  extends Required<Pick<Policy<Handed>, 'shards' | 'batchSize' | 'maxBytes' | 'maxCrashes'>> {
  readonly name: string
  /** @internal `shards` if the definition names them: a queue does not grow to a default. */
  readonly namedShards: number | undefined
  readonly maxPayloads: number | undefined
  readonly concurrency: number | undefined
  /** @internal */
  readonly limits: Limits | undefined
  /** @internal */
  readonly fairness: CheckedFairness | undefined
  /** @internal */
  readonly tenant: ((job: AnyJob) => string | null | undefined) | undefined
  readonly maxRetryCount: number | PerJob<number>
  readonly timeout: number | PerJob<number | undefined> | undefined
  readonly keepResult: number | undefined
  retryIn(retryCount: number, error: unknown, job: JobInWork<Handed>): number
  onDeath?(death: Death<Handed>): unknown
  /** @internal */
  readonly schema: StandardSchema | undefined
  readonly transactional: boolean
  /** @internal The application's, if handlers run in those. */
  readonly transactions: Transactions<unknown> | undefined
  /** One that is transactional takes a `TransactionalContext`. */
  perform?(batch: Batch<Handed>, context: PerformContext): unknown
  /** @internal Only a type, from which calls infer that of their payloads. */
  readonly payload?: Payload
}

/** Lets sixteen processes share a queue without any settings. */
export const DEFAULT_SHARDS = 16
const DEFAULT_BATCH_SIZE = 1
const DEFAULT_MAX_BYTES = 4 * 1024 * 1024
export const DEFAULT_MAX_RETRY_COUNT = 25
const DEFAULT_MAX_CRASHES = 3
/** The number of a shard in an advisory lock has no room for more. */
export const MAX_SHARDS = 16_384
const MAX_BATCH_SIZE = 10_000
const MAX_INTEGER = 2 ** 31 - 1
/** ms; the most that a timer can wait. */
export const MAX_TIMEOUT = MAX_INTEGER
/** So much that a namespace and a name of 255 bytes each fit. */
const MAX_NAME_BYTES = 511

const OPTIONS = [
  'shards',
  'batchSize',
  'maxPayloads',
  'maxBytes',
  'maxRetryCount',
  'maxCrashes',
  'concurrency',
  'limits',
  'timeout',
  'keepResult',
  'tenant',
  'fairness',
  'retryIn',
  'onDeath',
  'schema',
  'transactional',
  'perform',
]

/**
 * Defines a queue. Nothing is stored until the queue is used.
 * @throws LockstepError `LOCKSTEP_BAD_QUEUE` for a bad name, OptionError for a bad option
 */
// With a schema, which gives the types.
export function defineQueue<Payload, Handed, Tx>(
  name: string,
  options: Schema<Payload, Handed> & TransactionalQueueOptions<Payload, Tx, Handed> & Application<Tx>,
): Queue<Payload, Handed>
export function defineQueue<Payload, Handed, _Inferred>(
  name: string,
  options: Schema<Payload, Handed> & TransactionalQueueOptions<Payload, ClientBase, Handed> & Own,
): Queue<Payload, Handed>
export function defineQueue<Payload, Handed, _Inferred>(
  name: string,
  options: Schema<Payload, Handed> & QueueOptions<Payload, Handed>,
): Queue<Payload, Handed>
// Without type arguments: the handler's annotations give the types.
export function defineQueue<Payload, Tx>(
  name: string,
  options: TransactionalQueueOptions<Payload, Tx, Payload> & Application<Tx>,
): Queue<Payload>
export function defineQueue<Payload, _Inferred>(
  name: string,
  options: TransactionalQueueOptions<Payload, ClientBase, Payload> & Own,
): Queue<Payload>
export function defineQueue<Payload, _Inferred>(
  name: string,
  options: QueueOptions<Payload, Payload>,
): Queue<Payload>
// With the type of the payloads.
export function defineQueue<Payload = unknown>(
  name: string,
  options: TransactionalQueueOptions<Payload, unknown> & Application<unknown>,
): Queue<Payload>
export function defineQueue<Payload = unknown>(
  name: string,
  options: TransactionalQueueOptions<Payload> & Own,
): Queue<Payload>
export function defineQueue<Payload = unknown>(name: string, options?: QueueOptions<Payload>): Queue<Payload>
export function defineQueue<Payload>(
  name: string,
  // biome-ignore lint/suspicious/noExplicitAny: whatever the application's transactions are
  options: QueueOptions<Payload, any> | TransactionalQueueOptions<Payload, any, any> = {},
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
    maxRetryCount: isFunction(options.maxRetryCount)
      ? options.maxRetryCount
      : whole('maxRetryCount', 0, MAX_INTEGER, DEFAULT_MAX_RETRY_COUNT),
    maxCrashes: whole('maxCrashes', 1, 32_767, DEFAULT_MAX_CRASHES),
    maxPayloads: options.maxPayloads === undefined ? undefined : whole('maxPayloads', 1, MAX_INTEGER, 1),
    concurrency: options.concurrency === undefined ? undefined : whole('concurrency', 1, MAX_INTEGER, 1),
    limits: checkLimits(options.limits, `${what}: limits`),
    timeout:
      options.timeout === undefined || isFunction(options.timeout)
        ? options.timeout
        : whole('timeout', 1, MAX_TIMEOUT, 1),
    keepResult: checkKeepResult(options.keepResult, `${what}: keepResult`),
    tenant: optionalFunction(options.tenant, `${what}: tenant`) as Queue['tenant'],
    fairness: checkFairness(options.fairness, `${what}: fairness`),
    schema: optionalSchema(options.schema as StandardSchema | undefined, `${what}: schema`),
    ...transactionsOf(options.transactional ?? false, `${what}: transactional`),
    retryIn: optionalFunction(options.retryIn, `${what}: retryIn`) ?? defaultRetryIn,
    onDeath: optionalFunction(options.onDeath, `${what}: onDeath`),
    perform: optionalFunction(options.perform, `${what}: perform`) as Queue<Payload>['perform'],
  })
}

/** Seconds. */
export const LONGEST_KEPT = 365 * 24 * 3600

/** @throws OptionError unless `seconds` is undefined or a time that a result may be kept */
export function checkKeepResult(seconds: number | undefined, what: string): number | undefined {
  return seconds === undefined ? undefined : wholeNumber(seconds, 1, LONGEST_KEPT, what)
}

function isFunction(value: unknown): value is (...values: never[]) => unknown {
  return typeof value === 'function'
}

function transactionsOf(
  given: boolean | Transactions<unknown>,
  what: string,
): Pick<Queue, 'transactional' | 'transactions'> {
  if (typeof given === 'boolean') return { transactional: given, transactions: undefined }
  if (typeof given?.transaction === 'function') return { transactional: true, transactions: given }
  throw new OptionError(
    `${what} must be true, false, or what transactionsOf(…) of pg-lockstep/drizzle and the like gives, not ${nameOf(given)}`,
  )
}

/** @throws LockstepError `LOCKSTEP_BAD_QUEUE` unless `name` is text of 1 to 511 bytes that Postgres can hold. */
function checkQueueName(name: unknown): asserts name is string {
  const problem =
    typeof name !== 'string'
      ? `must be text, not ${show(name)}`
      : name === ''
        ? 'must not be empty'
        : Buffer.byteLength(name) > MAX_NAME_BYTES
          ? `must be at most ${MAX_NAME_BYTES} bytes, not ${Buffer.byteLength(name)}`
          : isStorable(name)
            ? undefined
            : `must be ${STORABLE_TEXT}`
  if (problem) throw new LockstepError('LOCKSTEP_BAD_QUEUE', `the name of a queue ${problem}`)
}

export function isQueue(value: unknown): value is Queue {
  return (
    typeof value === 'object' && value !== null && 'name' in value && 'retryIn' in value && 'shards' in value
  )
}

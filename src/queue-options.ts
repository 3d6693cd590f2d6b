import type { ClientBase } from 'pg'
import type { Fairness } from './fairness.ts'
import type { Batch, Death, PerformContext, TransactionalContext, Transactions } from './handler.ts'
import type { JobInWork, NewJob } from './job.ts'
import type { Json } from './json.ts'
import type { Limits } from './limits.ts'
import type { StandardSchema } from './schema.ts'

export interface Policy<Payload> {
  /**
   * Number of parts that can be processed side by side, for a new queue. Default 16. A worker whose definition names more
   * shards than the queue has grows it when it starts. A definition with fewer, or none, changes nothing: see `reshard`.
   */
  readonly shards?: number
  /** Most ids that a handler gets at once. Default 1. */
  readonly batchSize?: number
  /** Most payloads of an id that a round takes, the lowest scores first. Default: all. */
  readonly maxPayloads?: number
  /**
   * Most bytes of payloads, as JSON text, that a round takes of an id: the lowest scores first, and at least one payload.
   * The rest follows in the next round. In memory, payloads take several times as much. Default 4 MiB.
   */
  readonly maxBytes?: number
  /**
   * Retries before the lowest payload dies; 0 means one run. A function decides for each job, by its headers for example. If
   * it throws or returns no number, the default applies. Default 25.
   */
  readonly maxRetryCount?: number | ((job: JobInWork<Payload>) => number)
  /** Crashes in a row after which a round counts as failed. Default 3. */
  readonly maxCrashes?: number
  /** Most batches of the queue that a process has in work at once. Default: its number of slots. */
  readonly concurrency?: number
  /**
   * How many of its ids all processes together may hold at once, and how many rounds may begin in a time: of the queue, and of
   * each tenant. What is over a limit waits, and others go before it. In force from when a worker starts; if definitions
   * differ, the worker decides that started last. Default: no limits.
   */
  readonly limits?: Limits
  /**
   * ms until the batch's signal is aborted. A function decides for each job, and the longest counts for its batch; if it
   * throws, the batch fails. Default: none.
   */
  readonly timeout?: number | ((job: JobInWork<Payload>) => number | undefined)
  /**
   * Seconds for which what a handler returns is kept, for `result`: any JSON. If `batchSize` is above 1, it must return a Map from
   * ids to their results. A round whose result can't be stored as JSON has failed. Default: results are not kept.
   */
  readonly keepResult?: number
  /**
   * Seconds until the next try; `retryCount` is 0 after the first failure, `error` is what was thrown. If it throws or returns
   * no number, the default applies. Default: `defaultRetryIn`.
   */
  retryIn?(retryCount: number, error: unknown, job: JobInWork<Payload>): number
  /**
   * Called when a payload went to the morgue because of what its handler did, in the worker where it did, which waits for
   * it before it stops. If that process dies first, it isn't called: what must not be missed is in the morgue.
   */
  onDeath?(death: Death<Payload>): unknown
}

export interface Tenancy<Payload> {
  /**
   * For whom a job is that doesn't say so itself. Called by `enqueue`, before any middleware, so it can't wait for anything. If
   * it throws, or returns something else than text, `enqueue` rejects. Null, undefined and '': nobody in particular. Default:
   * nobody.
   */
  tenant?(job: NewJob<Payload>): string | null | undefined
  /**
   * Sends the jobs of tenants that push much to slower lanes. In force from when a worker starts, or a producer creates the
   * queue; if definitions differ, the worker decides that started last. Default: each tenant has a lane of its own.
   */
  readonly fairness?: Fairness
}

export interface Validation<Payload, Handed> {
  /**
   * Checks each payload, as JSON has it, when it's enqueued, and once more before it's performed, since SQL can push anything.
   * It's stored as it was pushed; the handler gets what the schema makes of it. One that is refused before it's performed
   * goes to the morgue at once, with the reason. Default: none.
   */
  readonly schema?: StandardSchema<Payload, Handed>
}

export interface QueueOptions<Payload, Handed = Json<Payload>>
  extends Policy<Handed>,
    Tenancy<Payload>,
    Validation<Payload, Handed> {
  readonly transactional?: false
  /** Only workers need it: a producer's definition may omit it. */
  perform?(batch: Batch<Handed>, context: PerformContext): unknown
}

export interface TransactionalQueueOptions<Payload, Tx = ClientBase, Handed = Json<Payload>>
  extends Policy<Handed>,
    Tenancy<Payload>,
    Validation<Payload, Handed> {
  /**
   * The handler's writes through `context.tx` and the completion are in one transaction: exactly once. With `true`, it's a
   * transaction of the worker's own, on a client of `pg`.
   */
  readonly transactional: true | Transactions<Tx>
  perform?(batch: Batch<Handed>, context: TransactionalContext<Tx>): unknown
}

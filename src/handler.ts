import type { ClientBase } from 'pg'
import type { JobInfo, PayloadHeaders } from './job.ts'
import type { Logger } from './logger.ts'

/** The ids of a batch, each with all its payloads in score order, as JSON has them. */
export type Batch<Payload = unknown> = ReadonlyMap<string, readonly Payload[]>

/** What a handler gets beside its batch. */
export interface PerformContext {
  /** Aborted at the timeout, when the worker stops for good, and when the process has lost its lease. */
  readonly signal: AbortSignal
  /** By id, like the batch. */
  readonly jobs: ReadonlyMap<string, JobInfo>
  /** The one that `Lockstep` was given. */
  readonly logger: Logger
  /**
   * Fails only this id of the batch, or ends it as a `Discard`, `Snooze` or `RetryIn` says. In a transaction, its writes
   * would be committed with those of the other ids: write them after a savepoint, and roll back to it first.
   */
  fail(id: string, error: unknown): void
}

/** What a transactional handler gets beside its batch. */
export interface TransactionalContext<Tx = ClientBase> extends PerformContext {
  /**
   * The transaction that also completes the batch. Don't commit it, roll it back, or release its client; savepoints are
   * fine. A handler that goes on after a failed statement must roll back to a savepoint: nothing of an aborted transaction
   * is stored. When the signal is aborted, a statement under way rejects.
   */
  readonly tx: Tx
}

/**
 * How the application begins its transactions, such as `transactionsOf(db)` of `pg-lockstep/drizzle`. They must be READ COMMITTED,
 * of a role that has a worker's rights, in the database of the queue.
 */
export interface Transactions<Tx> {
  /**
   * Begins a transaction, runs `work` in it, and commits it. If `work` rejects, rolls back and rejects. What `work` gets is
   * what `enqueue` takes as `tx`.
   */
  transaction(work: (tx: Tx) => Promise<void>): PromiseLike<unknown>
  /** @internal What `work` gets, such as `a Knex transaction`. */
  readonly given?: string
}

/** A payload that went to the morgue. */
export interface Death<Payload = unknown> {
  readonly id: string
  /**
   * As the handler left it; as it was pushed, if the queue's schema refused it. Undefined if the handler took it out of its
   * list, or if it was too large and the round never began.
   */
  readonly payload: Payload | undefined
  /** Undefined like the payload. */
  readonly score: number | undefined
  /** Null if it was pushed without. */
  readonly headers: PayloadHeaders | null
  /** What was thrown. */
  readonly error: unknown
}

import type { Queue } from '../../queue.ts'
import type { Through } from '../../store/through.ts'
import type { Abort } from './perform.ts'

/** A transaction that a handler has: one of the worker's own, or one of the application's. */
export interface LentTransaction {
  /** What the handler gets. */
  readonly tx: unknown
  readonly on: Through
  /** What its round is called in it. */
  readonly name: string
  /** That of its session; undefined if its statements can't get into another one. */
  readonly pid?: number | undefined
  /** Its number, a decimal, once the handler has ended and something is to be stored. */
  number?: string
  /** Why its connection was lost, as far as that has been heard. */
  readonly lost: Error | undefined
  /** Nothing of it may take effect any more: a statement under way rejects. */
  abort(): void
  /** The handler has ended. */
  end(): void
}

/** Where handlers of transactional queues get their transactions. */
export interface Lender {
  /** Runs `work` in a transaction that has a name, and commits; or rolls back, if `work` rejects. */
  lend<T>(queue: Queue, work: (lent: LentTransaction) => Promise<T>, abort: Abort): Promise<T>
}

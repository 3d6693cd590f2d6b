import type { Through } from '../../store/through.ts'

/** A transaction that a handler has: one of the worker's own, or one of the application's. */
export interface LentTransaction {
  /** What the handler gets. */
  readonly tx: unknown
  readonly on: Through
  /** Why its connection was lost, as far as that has been heard. */
  readonly lost: Error | undefined
  /** Nothing of it may take effect any more: a statement under way rejects. */
  abort(): void
  /** The handler has ended. */
  end(): void
}

import type { Round } from '../../store/claim.ts'
import type { Failure } from '../../store/settle.ts'

/** A failed round as it is stored, with what was thrown. */
export interface FailedRound extends Failure {
  readonly thrown: unknown
}

/** What to store for a batch. */
export interface Outcome {
  readonly completed: readonly Round[]
  readonly failed: readonly FailedRound[]
  readonly released: readonly Round[]
}

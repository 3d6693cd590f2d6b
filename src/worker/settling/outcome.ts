import type { Round } from '../../store/claim.ts'
import type { Failure, Leftover } from '../../store/settle.ts'
import type { Claimant } from './claimant.ts'

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

/** Stores how batches ended. */
export interface Settler {
  /** `uncertain`: it may be stored already, so a claim that is gone counts as stored. */
  settle(claimant: Claimant, outcome: Outcome, uncertain?: boolean): void
  /** It is unknown how the rounds ended: releases them and counts a crash (R10), unless an end of theirs is stored already. */
  crashed(claimant: Claimant, rounds: readonly Round[]): void
  /** An outcome that a handler's transaction has stored already, and those of its jobs that wait again. */
  stored(claimant: Claimant, outcome: Outcome, leftovers: readonly Leftover[]): void
}

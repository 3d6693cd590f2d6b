import { ignoreRejection } from '../../promises.ts'
import type { Queue } from '../../queue.ts'
import { defaultRetryIn } from '../../retry.ts'
import type { Round } from '../../store/claim.ts'
import type { FailedRound, Outcome } from '../settling/outcome.ts'
import type { Describe } from './description.ts'
import { type Failed, type Performance, Released } from './perform.ts'

function outcomeOf({ queue, rounds, describe }: Performance, failed: Failed): Outcome {
  if (failed.size === 0) return { completed: rounds, failed: [], released: [] }
  return {
    completed: rounds.filter(({ id }) => !failed.has(id)),
    failed: rounds
      .filter(({ id }) => failed.has(id))
      .map((round) => failure(queue, round, failed.get(round.id), describe)),
    released: [],
  }
}

/** R15: a round that did not succeed after we aborted its signal for our own reasons has not failed. */
export function ended(performance: Performance, failed: Failed): Outcome {
  const outcome = outcomeOf(performance, failed)
  if (!(performance.abort.reason instanceof Released)) return outcome
  return { completed: outcome.completed, failed: [], released: outcome.failed.map(({ round }) => round) }
}

export function failAll(rounds: readonly Round[], error: unknown): Failed {
  return new Map(rounds.map(({ id }) => [id, error]))
}

/** R6 and R7: one more failure. If the last retry is used up, the lowest payload dies. */
export function failure(queue: Queue, round: Round, thrown: unknown, describe: Describe): FailedRound {
  const retryCount = round.retryCount + 1
  const dies = retryCount >= queue.maxRetryCount
  return {
    round,
    thrown,
    error: describe(thrown),
    retryIn: dies ? null : secondsUntilRetry(queue, retryCount),
  }
}

const A_CENTURY = 100 * 365 * 24 * 3600

/** A `retryIn` that throws or returns no number must not lose the failure: the default replaces it. */
function secondsUntilRetry(queue: Queue, retryCount: number): number {
  try {
    const seconds: unknown = queue.retryIn(retryCount)
    if (typeof seconds === 'number' && !Number.isNaN(seconds))
      return Math.min(Math.max(seconds, 0), A_CENTURY)
    ignoreRejection(seconds)
  } catch {}
  return defaultRetryIn(retryCount)
}

import { wantedOf } from '../../ending.ts'
import { TimeoutError } from '../../errors.ts'
import type { JobInWork } from '../../job.ts'
import { ignoreRejection } from '../../promises.ts'
import { DEFAULT_MAX_RETRY_COUNT, type Queue } from '../../queue.ts'
import { defaultRetryIn } from '../../retry.ts'
import type { Round } from '../../store/claim.ts'
import type { FailedRound, Outcome } from '../settling/outcome.ts'
import type { Describe } from './description.ts'
import { jobOf } from './job-in-work.ts'
import { type Failed, type Performance, Released } from './perform.ts'

function outcomeOf({ queue, rounds, describe, results }: Performance, failed: Failed): Outcome {
  const withResults = (completed: readonly Round[]) =>
    results ? completed.map((round) => ({ ...round, kept: results.get(round.id) })) : completed
  if (failed.size === 0) return { completed: withResults(rounds), failed: [], released: [] }
  return {
    completed: withResults(rounds.filter(({ id }) => !failed.has(id))),
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

/**
 * How a round ends that did not succeed. If its handler wants nothing else, that is one more failure (R6); if the last retry
 * is used up, the lowest payload dies (R7).
 */
export function failure(queue: Queue, round: Round, thrown: unknown, describe: Describe): FailedRound {
  const wanted = wantedOf(thrown)
  if (wanted?.end === 'snooze')
    return { round, thrown, end: 'snooze', error: null, retryIn: bounded(wanted.seconds) }
  if (wanted?.end === 'discard' && !wanted.morgue)
    return { round, thrown, end: 'drop', error: null, retryIn: null }
  const error = describe(thrown)
  if (wanted?.end === 'discard') return { round, thrown, end: 'discard', error, retryIn: null }
  const retryCount = round.retryCount + 1
  const job = () => jobOf(round)
  const isTimeout = thrown instanceof TimeoutError
  if (retryCount >= mostRetries(queue, job))
    return { round, thrown, end: 'die', error, retryIn: null, isTimeout }
  const retryIn = wanted ? bounded(wanted.seconds) : secondsUntilRetry(queue, retryCount, thrown, job)
  return { round, thrown, end: 'fail', error, retryIn, isTimeout }
}

/** A function that throws or returns no number must not lose the failure: the default replaces it. */
function mostRetries({ maxRetryCount }: Queue, job: () => JobInWork): number {
  if (typeof maxRetryCount === 'number') return maxRetryCount
  return numberOf(() => maxRetryCount(job())) ?? DEFAULT_MAX_RETRY_COUNT
}

function secondsUntilRetry(queue: Queue, retryCount: number, thrown: unknown, job: () => JobInWork): number {
  const seconds = numberOf(() => queue.retryIn(retryCount, thrown, job()))
  return seconds === undefined ? defaultRetryIn(retryCount) : bounded(seconds)
}

function numberOf(ask: () => unknown): number | undefined {
  try {
    const answer = ask()
    if (typeof answer === 'number' && !Number.isNaN(answer)) return answer
    ignoreRejection(answer)
  } catch {}
  return undefined
}

const A_CENTURY = 100 * 365 * 24 * 3600

function bounded(seconds: number): number {
  return Math.min(Math.max(seconds, 0), A_CENTURY)
}

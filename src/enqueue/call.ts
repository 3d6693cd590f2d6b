import { JobError } from '../errors.ts'
import type { NewJob } from '../job.ts'
import type { PushedJob } from '../store/push.ts'
import { toPushedJob } from './validation.ts'

/** Jobs that can be stored, of one call of `enqueue`. */
export interface CheckedCall {
  readonly jobs: readonly PushedJob[]
  /** The place in the caller's list of the job at this one. */
  placeOf(index: number): number
}

/**
 * `current` is what the middleware made of the caller's list `given`.
 * @throws JobError for what can't be stored, with the caller's own index where the job is the caller's
 */
export function checkCall(current: readonly NewJob[], given: readonly NewJob[]): CheckedCall {
  const placeOf = (index: number) => placeIn(given, current[index]!, index)
  try {
    return { jobs: current.map(toPushedJob), placeOf }
  } catch (error) {
    if (error instanceof JobError) throw new JobError(placeOf(error.index), error.field, error.problem)
    throw error
  }
}

/** Of one that a middleware has made, its place in what that handed on. */
function placeIn(given: readonly NewJob[], job: NewJob, index: number): number {
  if (given[index] === job) return index
  const place = given.indexOf(job)
  return place === -1 ? index : place
}

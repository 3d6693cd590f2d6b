import { JobError } from '../errors.ts'
import type { NewJob } from '../job.ts'
import type { PushedJob } from '../store/push.ts'
import { toPushedJob } from './validation.ts'

/** The checked jobs of one call of `enqueue`. */
export interface CheckedCall {
  readonly jobs: readonly PushedJob[]
  /** The place of job `index` in the caller's list. */
  placeOf(index: number): number
}

/**
 * `current` is the caller's list `given` after the middleware.
 * @throws JobError for a job that can't be stored, with the caller's own index if the job is the caller's
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

/** For a job that a middleware made, the place in the middleware's list. */
function placeIn(given: readonly NewJob[], job: NewJob, index: number): number {
  if (given[index] === job) return index
  const place = given.indexOf(job)
  return place === -1 ? index : place
}

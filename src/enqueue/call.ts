import { JobError } from '../errors.ts'
import type { NewJob } from '../job.ts'
import { ignoreRejection } from '../promises.ts'
import type { Queue } from '../queue.ts'
import { judge, mismatch, type Verdict } from '../schema.ts'
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
    return { jobs: current.map((job, index) => toPushedJob(job, index)), placeOf }
  } catch (error) {
    if (error instanceof JobError) throw new JobError(placeOf(error.index), error.field, error.problem)
    throw error
  }
}

/**
 * Checks the payloads by the queue's schema, as JSON has them: so a handler will get what passes here. A promise only if
 * the schema takes its time.
 * @throws JobError for the first payload that is refused; what the schema throws
 */
export function checkBySchema(
  { name, schema }: Queue,
  { jobs, placeOf }: CheckedCall,
): Promise<void> | undefined {
  if (!schema) return undefined
  const require = ({ problem }: Verdict, index: number) => {
    if (problem !== undefined) throw new JobError(placeOf(index), 'payload', mismatch(name, problem))
  }
  const later: Promise<void>[] = []
  for (const [index, { payload }] of jobs.entries()) {
    const verdict = judge(schema, JSON.parse(payload))
    if (!('then' in verdict)) require(verdict, index)
    else {
      const one = Promise.resolve(verdict).then((awaited) => require(awaited, index))
      // The next payload may throw at once, and nobody would wait for this one.
      ignoreRejection(one)
      later.push(one)
    }
  }
  return later.length > 0 ? Promise.all(later).then(() => {}) : undefined
}

/** For a job that a middleware made, the place in the middleware's list. */
function placeIn(given: readonly NewJob[], job: NewJob, index: number): number {
  if (given[index] === job) return index
  const place = given.indexOf(job)
  return place === -1 ? index : place
}

import { DatabaseError, JobError } from '../errors.ts'
import { hasCode } from '../postgres/failure.ts'
import type { PushedJob } from '../store/push.ts'
import type { CheckedCall } from './call.ts'

/** As the server words it: the index counts in the statement, the field is the column's name. */
const BAD_JOB = /^jobs\[(\d+)\]\.(\w+) (.+)$/s

/** What the server refused in terms of the call: the caller's index, and an error worth another try where it is. */
export function toCallersError(
  error: unknown,
  queue: string,
  chunk: readonly PushedJob[],
  { jobs, placeOf }: CheckedCall,
): unknown {
  if (hasCode(error, 'LOCKSTEP_UNKNOWN_QUEUE')) {
    return new DatabaseError(
      'LOCKSTEP_CONFLICT',
      `queue "${queue}" was deleted, or created after the transaction began; try it again: a transaction of yours from its beginning, once it is rolled back`,
      { cause: error },
    )
  }
  if (!hasCode(error, 'LOCKSTEP_BAD_JOB')) return error
  const [, place, column, problem] = BAD_JOB.exec((error as Error).message) ?? []
  const job = chunk[Number(place)]
  if (!job) return error
  return new JobError(placeOf(jobs.indexOf(job)), column === 'perform_in' ? 'performIn' : column!, problem!)
}

import { DatabaseError, JobError } from '../errors.ts'
import { hasCode } from '../postgres/failure.ts'
import type { PushedJob } from '../store/push.ts'
import type { CheckedCall } from './call.ts'

/** The server's wording: the index counts within the statement, the field is the column's name. */
const BAD_JOB = /^jobs\[(\d+)\]\.(\w+) (.+)$/s

/** Translates the server's refusal for the caller: with the caller's index, and as a conflict if another try may succeed. */
export function toCallersError(
  error: unknown,
  queue: string,
  chunk: readonly PushedJob[],
  { jobs, placeOf }: CheckedCall,
): unknown {
  if (hasCode(error, 'LOCKSTEP_UNKNOWN_QUEUE')) {
    return new DatabaseError(
      'LOCKSTEP_CONFLICT',
      `queue "${queue}" was deleted, or created after the transaction began; try again: if you passed a transaction, roll it back and repeat it from its beginning`,
      { cause: error },
    )
  }
  if (!hasCode(error, 'LOCKSTEP_BAD_JOB')) return error
  const [, place, column, problem] = BAD_JOB.exec((error as Error).message) ?? []
  const job = chunk[Number(place)]
  if (!job) return error
  return new JobError(placeOf(jobs.indexOf(job)), column === 'perform_in' ? 'performIn' : column!, problem!)
}

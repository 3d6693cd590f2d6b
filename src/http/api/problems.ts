import { JobError, LockstepError, OptionError } from '../../errors.ts'
import type { Logger } from '../../logger.ts'
import { Problem, problemOf } from '../../serving/problem.ts'

const SOON = { 'retry-after': '1' }

/** What is wrong with a body that has the right form. */
const REFUSED = ['LOCKSTEP_BAD_JOB', 'LOCKSTEP_BAD_RESULT', 'LOCKSTEP_KEY_REUSED']

/** A value of a body that is refused. `field`: where it is, as in `jobs[3].score`; empty for the whole body. */
export function refused(field: string, problem: string, code = 'LOCKSTEP_BAD_OPTION'): Problem {
  return new Problem(422, code, `${field || 'the body'} ${problem}`, {}, field === '' ? {} : { field })
}

/** What the client is told. */
export function apiProblemOf(error: unknown, logger: Logger): Problem {
  if (error instanceof JobError) {
    const field = `jobs[${error.index}].${asInJson(error.field)}`
    return refused(field, inJson(error.problem), error.code)
  }
  if (error instanceof Problem || !(error instanceof LockstepError)) return problemOf(error, logger)
  const { code, message } = error
  if (REFUSED.includes(code)) return new Problem(422, code, withoutCall(message))
  if (error instanceof OptionError) return new Problem(400, code, withoutCall(message))
  if (code === 'LOCKSTEP_KEY_IN_USE') return new Problem(409, code, message, SOON)
  if (code === 'LOCKSTEP_LOCKED')
    return new Problem(409, code, 'a transaction that has pushed the id is still open: send it again', SOON)
  if (code === 'LOCKSTEP_CONFLICT')
    return new Problem(409, code, 'the call met another one: nothing was done, send it again', SOON)
  // Its advice names queues that a token may not be good for.
  if (code === 'LOCKSTEP_UNKNOWN_QUEUE') return new Problem(404, code, 'the queue does not exist')
  if (code === 'LOCKSTEP_ENCODING')
    return new Problem(422, code, 'the encoding of the database lacks a character of the request')
  return problemOf(error, logger)
}

/** The names of fields in JSON: `perform_in` for `performIn`. */
export function asInJson(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** The names of times and numbers of a job that a message of the library mentions. */
const NAMES = /`(performIn|expiresIn|diedAt|retryCount)`/g

export function inJson(message: string): string {
  return message.replaceAll(NAMES, asInJson)
}

/** A message of the library begins with the name of its function: a client has called none. */
function withoutCall(message: string): string {
  return inJson(message.replace(/^[a-z]\w*: /, ''))
}

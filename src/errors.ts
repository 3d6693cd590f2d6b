/**
 * Every error of pg-lockstep: `code` is for programs, the message says what to do. Any other error of the server comes as the
 * driver has it, such as 57014 or 55P03 where a time-out of yours was over.
 *
 * - `LOCKSTEP_BAD_OPTION`, `LOCKSTEP_BAD_QUEUE`, `LOCKSTEP_BAD_JOB`, `LOCKSTEP_BAD_TRANSACTION`: mend the call.
 * - `LOCKSTEP_UNKNOWN_QUEUE`, `LOCKSTEP_SCHEMA_MISSING`, `LOCKSTEP_SCHEMA_OLD`, `LOCKSTEP_SCHEMA_NEW`,
 *   `LOCKSTEP_SEQUENCE_BEHIND`, `LOCKSTEP_EMPTY_JOB`, `LOCKSTEP_DISTRIBUTED`, `LOCKSTEP_TOO_MANY_LOCKS`,
 *   `LOCKSTEP_ENCODING`: mend the database's side.
 * - `LOCKSTEP_QUEUE_NOT_EMPTY`, `LOCKSTEP_QUEUE_IN_USE`, `LOCKSTEP_LOCKED`: see to what is in the way.
 * - `LOCKSTEP_CONNECTION`, `LOCKSTEP_AUTHENTICATION`, `LOCKSTEP_PERMISSION`, `LOCKSTEP_READ_ONLY`,
 *   `LOCKSTEP_POOLED`, `LOCKSTEP_ISOLATION`: mend the connection.
 * - `LOCKSTEP_CLOSED`: `close()` was called before, or the pool ended.
 * - `LOCKSTEP_TRANSACTION_ABORTED`, `LOCKSTEP_CONFLICT`: roll back; a conflict is worth another try.
 * - `LOCKSTEP_TRANSACTION_OVER`: await what a handler sends through its transaction.
 * - `LOCKSTEP_TRANSACTION_LENT`: leave its end and its connection to the worker.
 */
export class LockstepError extends Error {
  readonly code: string

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = new.target.name
    this.code = code
  }
}

/** An option that is unknown or out of range. */
export class OptionError extends LockstepError {
  constructor(message: string) {
    super('LOCKSTEP_BAD_OPTION', message)
  }
}

/** A job that can't be stored; nothing of its call was. */
export class JobError extends LockstepError {
  /** Its place in the call, from 0. */
  readonly index: number
  readonly field: string
  /** What is wrong with the field. */
  readonly problem: string

  constructor(index: number, field: string, problem: string) {
    super('LOCKSTEP_BAD_JOB', `jobs[${index}].${field} ${problem}`)
    this.index = index
    this.field = field
    this.problem = problem
  }
}

/** The database, or the way to it, is not what it has to be. `cause` is the driver's error. */
export class DatabaseError extends LockstepError {}

/** A round whose process died again and again: it may be what kills it (R10). */
export class CrashLimitError extends LockstepError {
  constructor(crashes: number) {
    super(
      'LOCKSTEP_CRASH_LIMIT',
      `the worker process died ${crashes} times in a row while this job was in work, lost the connection of its transaction, or did not get its payloads; see whether the job kills the process (memory, native code, process.exit) or its session in the database, and whether its payloads are too large: maxBytes bounds them`,
    )
  }
}

/** A job was claimed that has no payloads: nothing of ours leaves one behind. */
export class EmptyJobError extends LockstepError {
  constructor() {
    super(
      'LOCKSTEP_EMPTY_JOB',
      'the job has no payloads: they were deleted by hand, or are missing from a restore; push them again, or delete the job',
    )
  }
}

/** A handler outlived its queue's `timeout` (R16). */
export class TimeoutError extends LockstepError {
  constructor(timeout: number) {
    super('LOCKSTEP_TIMEOUT', `the handler ran longer than the queue's timeout of ${timeout} ms`)
  }
}

const MAX_ERROR_LENGTH = 8_000

/** What a failure looks like in a row: bounded, whatever was thrown, without bytes Postgres can't hold. */
export function describeError(thrown: unknown): string {
  return boundText(textOf(thrown))
}

/** At most so long, without bytes Postgres can't hold. */
export function boundText(text: string): string {
  const bounded = text.length > MAX_ERROR_LENGTH ? `${text.slice(0, MAX_ERROR_LENGTH)}…` : text
  return bounded.replaceAll('\u0000', '\ufffd').toWellFormed()
}

/** Anything can be thrown, also what can't be turned into text: that must not cost the round its end. */
function textOf(thrown: unknown): string {
  try {
    if (thrown instanceof Error && typeof thrown.stack === 'string' && thrown.stack !== '')
      return thrown.stack
    return thrown === undefined || thrown === null ? `${thrown} was thrown` : String(thrown)
  } catch {
    return 'something was thrown that can’t be shown as text'
  }
}

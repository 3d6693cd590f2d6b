import { inspect, types } from 'node:util'

/**
 * Every error of pg-lockstep. `code` is for programs, the message says what to do. Other errors of the server arrive as the
 * driver throws them, such as 57014 or 55P03 when one of your time-outs ends.
 *
 * - `LOCKSTEP_BAD_OPTION`, `LOCKSTEP_BAD_QUEUE`, `LOCKSTEP_BAD_JOB`, `LOCKSTEP_BAD_TRANSACTION`,
 *   `LOCKSTEP_UNKNOWN_PROCESS`, `LOCKSTEP_UNKNOWN_TOKEN`, `LOCKSTEP_TOKEN_EXISTS`, `LOCKSTEP_BAD_RESULT`: fix the call, or what
 *   the handler returns.
 * - `LOCKSTEP_DROPPED`: a middleware has dropped the job whose result was to be awaited.
 * - `LOCKSTEP_UNKNOWN_QUEUE`, `LOCKSTEP_SCHEMA_MISSING`, `LOCKSTEP_SCHEMA_OLD`, `LOCKSTEP_SCHEMA_NEW`,
 *   `LOCKSTEP_SCHEMA_FOREIGN`, `LOCKSTEP_SEQUENCE_BEHIND`, `LOCKSTEP_EMPTY_JOB`, `LOCKSTEP_DISTRIBUTED`,
 *   `LOCKSTEP_TOO_MANY_LOCKS`, `LOCKSTEP_ENCODING`: fix the database.
 * - `LOCKSTEP_QUEUE_NOT_EMPTY`, `LOCKSTEP_QUEUE_IN_USE`, `LOCKSTEP_LOCKED`: remove the obstacle that the message names.
 * - `LOCKSTEP_CONNECTION`, `LOCKSTEP_AUTHENTICATION`, `LOCKSTEP_PERMISSION`, `LOCKSTEP_READ_ONLY`,
 *   `LOCKSTEP_POOLED`, `LOCKSTEP_OTHER_DATABASE`, `LOCKSTEP_ISOLATION`: fix the connection.
 * - `LOCKSTEP_CLOSED`: `close()` was called before, or the pool ended.
 * - `LOCKSTEP_TRANSACTION_ABORTED`, `LOCKSTEP_CONFLICT`: roll back; after a conflict, try again.
 * - `LOCKSTEP_TIMEOUT`, `LOCKSTEP_CRASH_LIMIT`, `LOCKSTEP_BAD_PAYLOAD`: how a round failed (R16, R10, its queue's schema).
 * - `LOCKSTEP_TRANSACTION_OVER`: await every statement that a handler sends through its transaction.
 * - `LOCKSTEP_TRANSACTION_LENT`: let the worker end the transaction and release its connection.
 */
export class LockstepError extends Error {
  /** One of those above. */
  readonly code: string

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = new.target.name
    this.code = code
  }
}

/** An option is unknown or out of range. */
export class OptionError extends LockstepError {
  constructor(message: string) {
    super('LOCKSTEP_BAD_OPTION', message)
  }
}

/** A job can't be stored. Nothing of the call was stored. */
export class JobError extends LockstepError {
  /** The job's place in the call, from 0. */
  readonly index: number
  /** Such as `id` or `payload`. */
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

/** Something is wrong with the database or the connection to it. `cause` is the driver's error. */
export class DatabaseError extends LockstepError {}

/** The process died repeatedly during this round, so the round may be what kills it (R10). */
export class CrashLimitError extends LockstepError {
  constructor(crashes: number) {
    super(
      'LOCKSTEP_CRASH_LIMIT',
      `the worker process died ${crashes} times in a row while this job was in work, lost the connection of its transaction, or did not get its payloads; check whether the job kills the process (memory, native code, process.exit) or its database session, and whether its payloads are too large (maxBytes limits them)`,
    )
  }
}

/** A claimed job has no payloads. pg-lockstep itself never leaves such a job behind. */
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

/** The schema of its queue refused a payload before it was performed. */
export class PayloadError extends LockstepError {
  constructor(problem: string) {
    super('LOCKSTEP_BAD_PAYLOAD', `the payload ${problem}`)
    // Where it was found out says nothing.
    this.stack = `${this}`
  }
}

const MAX_ERROR_LENGTH = 8_000
const MAX_CAUSE_LENGTH = 2_500
const MAX_CAUSES = 2
/** `sql/1-values/brief_error.sql` looks for it, too. */
const SEPARATOR = '\ncaused by: '

/** The error text that is stored in a row, whatever was thrown: limited in length, without bytes Postgres can't hold. */
export function describeError(thrown: unknown): string {
  return boundText(textOf(thrown))
}

/** A line for a log: the message, and those of the nearest causes. */
export function summaryOf(error: unknown): string {
  const messages = [error, ...causesOf(error)].map(messageOf)
  return [...new Set(messages)].join('; caused by: ')
}

/** Limits the length, and drops bytes Postgres can't hold. */
export function boundText(text: string, most = MAX_ERROR_LENGTH): string {
  const bounded = text.length > most ? `${text.slice(0, most - 1)}…` : text
  return bounded.replaceAll('\u0000', '\ufffd').toWellFormed()
}

/**
 * What was thrown, if it can be read; otherwise an error that says so, with what can be read. A revoked proxy throws even when
 * it's asked for its class, any proxy may do so the second time, and an object may have getters that throw: code that looks at
 * it would fail in its place.
 */
export function legible(thrown: unknown): unknown {
  if (types.isProxy(thrown)) return illegible(thrown)
  if (typeof thrown !== 'object' || thrown === null) return thrown
  try {
    for (const name of ['name', 'message', 'stack', 'code', 'cause'] as const) void (thrown as Looked)[name]
    return thrown instanceof Error && typeof thrown.message !== 'string' ? illegible(thrown) : thrown
  } catch {
    return illegible(thrown)
  }
}

function illegible(thrown: unknown): Error {
  return new Error(`what was thrown can’t be read whole: ${messageOf(thrown)}`)
}

type Looked = Readonly<Record<'name' | 'message' | 'stack' | 'code' | 'cause', unknown>>

const ILLEGIBLE = 'a value was thrown that can’t be shown as text'

/** Also of what is no error. */
export function messageOf(thrown: unknown): string {
  try {
    return thrown instanceof Error ? String(thrown.message) : shown(thrown)
  } catch {
    return ILLEGIBLE
  }
}

/** What an object has of its own, without what is in that: drivers put the server's error in a plain object. */
const SHALLOW = { depth: 0, breakLength: Number.POSITIVE_INFINITY, customInspect: false } as const

function shown(thrown: unknown): string {
  const text = String(thrown)
  return text === '[object Object]' ? inspect(thrown, SHALLOW) : text
}

/**
 * A handler may throw a value that can't become text. The end of the round must be stored all the same. Libraries put what
 * the server says in the cause of an error that says which query failed, often at length.
 */
function textOf(thrown: unknown): string {
  const causes = causesOf(thrown).map((cause) => boundText(stackOf(cause), MAX_CAUSE_LENGTH))
  const most = causes.length === 0 ? MAX_ERROR_LENGTH : MAX_CAUSE_LENGTH
  return [boundText(stackOf(thrown), most), ...causes].join(SEPARATOR)
}

/** With the message, which a library may set only after the stack was taken. */
function stackOf(thrown: unknown): string {
  try {
    if (thrown instanceof Error) {
      const { stack } = thrown
      if (typeof stack === 'string' && stack !== '')
        return stack.includes(thrown.message) ? stack : `${thrown}\n${stack}`
    }
    return thrown === undefined || thrown === null ? `${thrown} was thrown` : shown(thrown)
  } catch {
    return messageOf(thrown)
  }
}

/** The nearest ones: an error may be a cause of its own. */
function causesOf(thrown: unknown): unknown[] {
  const found = new Set([thrown])
  // Those added meanwhile have their turn, too.
  for (const error of found) {
    for (const cause of directCausesOf(error)) found.add(cause)
    if (found.size > MAX_CAUSES) break
  }
  return [...found].slice(1, 1 + MAX_CAUSES)
}

interface ErrorWithCauses extends Error {
  /** What Sequelize has for a cause. */
  readonly parent?: unknown
  /** Of an AggregateError, which `Promise.any` throws. */
  readonly errors?: unknown
}

function directCausesOf(thrown: unknown): unknown[] {
  try {
    if (!(thrown instanceof Error)) return []
    const { cause, parent, errors } = thrown as ErrorWithCauses
    const several = Array.isArray(errors) ? errors.filter((one) => one instanceof Error) : []
    return [cause ?? parent, ...several].filter((one) => one !== undefined && one !== null)
  } catch {
    return []
  }
}

import { DatabaseError, LockstepError } from '../errors.ts'

/** The code is shared with other kinds of memory. In every language, the hint names the setting. */
const NO_ROOM = '53200 of locks'

/** The code is shared with an operation on something that isn't ready for it. */
const NO_LOGINS = '55000 at login'

/** A transaction was idle for too long, or took too long. The server then ends the session too. */
export const TIMED_OUT = ['25P03', '25P04']

const SESSION_OVER =
  'the session has ended, and its uncommitted changes are undone: start again on another connection'

const UNREACHABLE = 'the server could not be reached: check host, port and network, and try again'

const UNANSWERED =
  'the connection broke before the answer came, so the call may have been carried out or not: try it again'

const GIVEN_UP =
  'its client waited no longer, but the server may still carry the statement out: roll the transaction back, or end its connection, and start again'

const NOT_STARTED = 'the worker has not started: create another one when the server can be reached'

const NOT_BEGUN =
  'that was a connection of the Lockstep itself, before the call did anything: try it again; a transaction that you passed can go on'

/** Our code and advice for error codes of the server or the socket. */
const MEANINGS: Readonly<Record<string, readonly [code: string, advice: string]>> = {
  LK001: ['LOCKSTEP_UNKNOWN_QUEUE', ''],
  LK002: ['LOCKSTEP_BAD_JOB', ''],
  LK003: ['LOCKSTEP_ISOLATION', ''],
  LK004: ['LOCKSTEP_BAD_TRANSACTION', ''],
  LK014: ['LOCKSTEP_BAD_TRANSACTION', ''],
  LK024: ['LOCKSTEP_BAD_TRANSACTION', ''],
  LK005: ['LOCKSTEP_SEQUENCE_BEHIND', ''],
  ECONNREFUSED: [
    'LOCKSTEP_CONNECTION',
    'no server answers there: check the host and port, and that Postgres is running',
  ],
  ENOTFOUND: ['LOCKSTEP_CONNECTION', 'the host name is unknown: check the connection string'],
  ETIMEDOUT: ['LOCKSTEP_CONNECTION', 'the server does not answer: check the host, port and firewall'],
  '57P03': ['LOCKSTEP_CONNECTION', 'the server is starting up or shutting down: try again'],
  '53300': [
    'LOCKSTEP_CONNECTION',
    'the server has no connection left: lower pool sizes or raise max_connections',
  ],
  [NO_ROOM]: [
    'LOCKSTEP_TOO_MANY_LOCKS',
    'the server has no room for more locks: raise max_locks_per_transaction, which takes a restart, or give queues fewer shards (`lockstep reshard`)',
  ],
  '3D000': ['LOCKSTEP_CONNECTION', 'create the database, or fix its name in the connection string'],
  [NO_LOGINS]: [
    'LOCKSTEP_CONNECTION',
    'allow connections to the database: ALTER DATABASE … ALLOW_CONNECTIONS true',
  ],
  '28P01': ['LOCKSTEP_AUTHENTICATION', 'check the user and password of the connection string or pool'],
  '28000': ['LOCKSTEP_AUTHENTICATION', 'check the user of the connection string or pool, and pg_hba.conf'],
  '3F000': ['LOCKSTEP_SCHEMA_MISSING', 'run `lockstep migrate` first'],
  '42P01': ['LOCKSTEP_SCHEMA_MISSING', 'run `lockstep migrate` first'],
  '42883': ['LOCKSTEP_SCHEMA_OLD', 'run `lockstep migrate` with this release'],
  '42501': ['LOCKSTEP_PERMISSION', "grant the connection's role the rights it needs: see `lockstep roles`"],
  '25006': [
    'LOCKSTEP_READ_ONLY',
    'this server is a read-only replica, or the transaction, role or database is read-only by default: connect to the primary',
  ],
  '22P05': [
    'LOCKSTEP_ENCODING',
    'the encoding of this database lacks a character of the text: omit it or write it in ASCII, or use a database with the encoding UTF8',
  ],
  '25P02': [
    'LOCKSTEP_TRANSACTION_ABORTED',
    'an earlier statement of the transaction failed: roll it back and start again',
  ],
  '40001': ['LOCKSTEP_CONFLICT', 'roll the transaction back and try it again'],
  '40P01': ['LOCKSTEP_CONFLICT', 'roll the transaction back and try it again'],
}

/** The pool gave a call no connection in time. */
const NO_CONNECTION_FREE = /^timeout exceeded when trying to connect/

/** Our code and advice for errors of the driver and its pool, which have no code. */
const DRIVER_MEANINGS: readonly (readonly [RegExp, readonly [code: string, advice: string]])[] = [
  [/^Cannot use a pool after calling end/, ['LOCKSTEP_CLOSED', 'create another Lockstep']],
  [
    NO_CONNECTION_FREE,
    [
      'LOCKSTEP_CONNECTION',
      'no connection of the pool became free in time, or the server does not answer: allow the pool more connections, or run fewer calls at once',
    ],
  ],
  [
    /^SASL: .*client password/,
    [
      'LOCKSTEP_AUTHENTICATION',
      'the server wants a password, and none was given: put one into the connection string, or have the `password` of the pool be or return one',
    ],
  ],
  [
    /^Password must be a string/,
    ['LOCKSTEP_AUTHENTICATION', 'have the `password` function of the pool return a text'],
  ],
  [
    /^The server does not support SSL connections/,
    ['LOCKSTEP_CONNECTION', 'connect without SSL, or turn it on at the server'],
  ],
]

/** Turns the driver's error into ours if we have something to add; returns any other error as it is. */
export function toLockstepError(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof LockstepError) return error
  const { code, hint } = error as ServerError
  const meaning =
    code === undefined
      ? DRIVER_MEANINGS.find(([message]) => message.test(error.message))?.[1]
      : MEANINGS[keyOf(error, code)]
  if (!meaning) return error
  const [ours, advice] = meaning
  // Postgres begins a hint like a sentence.
  const told = advice || hint?.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())
  return new DatabaseError(ours, [messageOf(error), told].filter(Boolean).join('; '), { cause: error })
}

interface ServerError extends Error {
  readonly code?: string
  readonly hint?: string
}

function keyOf(error: ServerError, code: string): string {
  if (error.hint?.includes('max_locks_per_transaction')) return NO_ROOM
  return code === '55000' && isLast(error) ? NO_LOGINS : code
}

/** The same for a failure to connect, for which the driver or the socket may have no error code. */
export function toConnectError(error: unknown): unknown {
  return toConnectionError(error, UNREACHABLE)
}

/** The same for a COMMIT, or a statement that is its own transaction: the connection may break before or after it was done. */
export function toCallError(error: unknown): unknown {
  return toConnectionError(error, isFailedConnect(error) ? UNREACHABLE : UNANSWERED)
}

/** The same for what a call asks over the pool before it begins, while a caller's transaction is open elsewhere. */
export function toSpareConnectionError(error: unknown): unknown {
  if (!(error instanceof DatabaseError && error.code === 'LOCKSTEP_CONNECTION')) return error
  const { cause } = error
  return new DatabaseError(error.code, `${messageOf(cause as Error)}; ${NOT_BEGUN}`, { cause })
}

/** The same for a statement in a session, which may have ended: the driver has no error code for that. */
export function toStatementError(error: unknown): unknown {
  const isGivenUp = error instanceof Error && error.message === 'Query read timeout'
  return toConnectionError(error, isGivenUp ? GIVEN_UP : SESSION_OVER)
}

/** The same for the start of a worker, whichever of its connections failed. */
export function toStartError(error: unknown): unknown {
  const isOurs = error instanceof DatabaseError && error.code === 'LOCKSTEP_CONNECTION'
  const told = toConnectionError(isOurs ? (error.cause ?? error) : error, NOT_STARTED)
  // The cause may be what a function of the application's threw.
  return isOurs && !(told instanceof LockstepError) ? error : told
}

const LAST_SEVERITIES: readonly unknown[] = ['FATAL', 'PANIC']

function isLast(error: Error): boolean {
  return 'severity' in error && LAST_SEVERITIES.includes(error.severity)
}

/**
 * Whether the session may live on after this error, though its code is that of a lost connection: an ERROR may have any
 * code, such as 08006 for a foreign server. Severities are in the server's language, and some poolers end sessions with an
 * ERROR, so only the next answer shows it.
 */
export function mayLive(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  return 'severity' in error ? !LAST_SEVERITIES.includes(error.severity) : mayLive(error.cause)
}

function toConnectionError(error: unknown, advice: string): unknown {
  const known = toLockstepError(error)
  if (known instanceof LockstepError || !(error instanceof Error)) return known
  if (!isConnectionFailure(error) && !hasCode(error, ...TIMED_OUT)) return error
  return new DatabaseError('LOCKSTEP_CONNECTION', `${messageOf(error)}; ${advice}`, { cause: error })
}

/** Whether no session began: the system's call names itself, and the driver says that its own wait for one timed out. */
function isFailedConnect(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (error instanceof AggregateError) return error.errors.every(isFailedConnect)
  const { syscall } = error as NodeJS.ErrnoException
  return syscall === 'connect' || syscall === 'getaddrinfo' || /due to connection timeout/.test(error.message)
}

/** With these codes, the server refuses a login. */
const REFUSED_LOGINS = ['53300', '57P03', '28000', '28P01', '3D000']

/** Whether a call over a pool was not sent, since the pool could give it no connection. */
export function wasNotSent(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (isFailedConnect(error) || NO_CONNECTION_FREE.test(error.message)) return true
  if (hasCode(error, '55000') && isLast(error)) return true
  return hasCode(error, ...REFUSED_LOGINS) || wasNotSent(error.cause)
}

/** Connecting to a host name with several addresses fails with an AggregateError whose message is empty. */
function messageOf(error: Error): string {
  if (error instanceof AggregateError) return error.errors.map((inner: Error) => inner.message).join(', ')
  return error.message
}

/** Of the system, the server, postgres.js and Prisma. */
const CONNECTION_CODES =
  /^(CONNECTION_(CLOSED|ENDED|DESTROYED)$|CONNECT_TIMEOUT$|P1017$|ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|08|57P0)/
const CONNECTION_MESSAGES =
  /connection terminated|connection ended|client has encountered a connection error|timeout exceeded when trying to connect|not queryable|query read timeout|^timeout expired$/i

/** Whether the connection to the server broke, so that trying again later makes sense. */
export function isConnectionFailure(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  // The transaction itself failed, not the connection, so another try may well end the same.
  if (hasCode(error, ...TIMED_OUT)) return false
  const { code } = error as Error & { code?: string }
  if (code === 'LOCKSTEP_CONNECTION' || CONNECTION_CODES.test(code ?? '')) return true
  // Such as ENOENT: a server that restarts has no Unix socket for a moment.
  if (isFailedConnect(error)) return true
  return CONNECTION_MESSAGES.test(error.message) || isConnectionFailure(error.cause)
}

/** Whether the connection broke for certain; where the session may live on, its next answer shows it. */
export function hasBroken(error: unknown): boolean {
  return isConnectionFailure(error) && !mayLive(error)
}

export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  if (!(error instanceof Error)) return false
  const { code } = error as Error & { code?: string }
  return codes.includes(code ?? '') || hasCode(error.cause, ...codes)
}

/** Whether another session may well succeed: the server is read only, or the role lacks a right, as somebody may have left it. */
export function isOfSession(error: unknown): boolean {
  return hasCode(error, '25006', '42501')
}

/** Whether a function of ours has refused what it was given. */
export function isOurs(error: unknown): boolean {
  return error instanceof Error && /^LK/.test((error as ServerError).code ?? '')
}

/** Whether a value of the call is to blame, such as text that the encoding of the database lacks. */
export function isBadValue(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  return /^22/.test((error as ServerError).code ?? '') || isBadValue(error.cause)
}

/** We waited for a lock in vain, or its holder waits for us. In both cases we give way. */
export function isRefusedLock(error: unknown): boolean {
  return hasCode(error, '55P03', '40P01')
}

/**
 * The same in a transaction of ours that has a lock_timeout. If its time ends at the moment in which a lock comes, and there is another
 * one to wait for, the server takes that for somebody's cancel (57014).
 */
export function isOutOfTime(error: unknown): boolean {
  return isRefusedLock(error) || hasCode(error, '57014')
}

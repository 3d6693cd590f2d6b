import { DatabaseError, LockstepError } from '../errors.ts'
import type { Logger } from '../logger.ts'

/** An answer that is an error, in the form of RFC 9457. */
export interface ProblemDetails {
  readonly type: 'about:blank'
  readonly title: string
  readonly status: number
  readonly detail: string
  /** As LockstepError has it, or one of the server's own. */
  readonly code: string
  /** What else the problem says: extension members. */
  readonly [member: string]: unknown
}

/** A request that can't be answered. */
export class Problem extends LockstepError {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Extension members. */
  readonly more: Readonly<Record<string, unknown>>

  constructor(
    status: number,
    code: string,
    detail: string,
    headers: Readonly<Record<string, string>> = {},
    more: Readonly<Record<string, unknown>> = {},
  ) {
    super(code, detail)
    this.status = status
    this.headers = headers
    this.more = more
  }
}

const TITLES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  409: 'Conflict',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  422: 'Unprocessable Content',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
}

const STATUSES: Readonly<Record<string, number>> = {
  LOCKSTEP_BAD_OPTION: 400,
  LOCKSTEP_BAD_QUEUE: 400,
  LOCKSTEP_UNKNOWN_PROCESS: 404,
  LOCKSTEP_UNKNOWN_QUEUE: 404,
  LOCKSTEP_QUEUE_NOT_EMPTY: 409,
  LOCKSTEP_QUEUE_IN_USE: 409,
  LOCKSTEP_LOCKED: 409,
  LOCKSTEP_CONFLICT: 409,
  LOCKSTEP_CONNECTION: 503,
  LOCKSTEP_AUTHENTICATION: 503,
  LOCKSTEP_CLOSED: 503,
}

const FAILURES: Readonly<Record<string, string>> = {
  LOCKSTEP_PERMISSION:
    'the database role that the server logs in as may not do that; the server’s log says which right is missing',
  LOCKSTEP_LOCKED:
    'transactions that are still open hold some of what was asked for, which is as it was; the rest is done: try again later',
}

/** s */
const RETRY_AFTER = '5'

/** What the visitor is told. The server's own words may name hosts, users and tables, so those go to the log alone. */
export function problemOf(error: unknown, logger: Logger): Problem {
  if (error instanceof Problem) return error
  const code = error instanceof LockstepError ? error.code : 'LOCKSTEP_INTERNAL'
  const status = STATUSES[code] ?? 500
  if (status < 500 && error instanceof LockstepError && !(error instanceof DatabaseError))
    return new Problem(status, code, error.message)
  logger.error({ error }, 'a request could not be answered')
  if (status === 503)
    return new Problem(503, code, 'the database can’t be reached; the server’s log says why', {
      'retry-after': RETRY_AFTER,
    })
  return new Problem(status, code, FAILURES[code] ?? 'the request failed; the server’s log says why')
}

/** What failed because its client went away is nobody's mistake, unlike an error of ours; and nobody reads the answer. */
export function leftBehind(error: unknown, logger: Logger): Problem {
  if (error instanceof LockstepError) return problemOf(error, logger)
  logger.debug({ error }, 'a client went away')
  return new Problem(400, 'LOCKSTEP_BAD_OPTION', 'the request was cut off')
}

export function detailsOf({ status, code, message, more }: Problem): ProblemDetails {
  return { type: 'about:blank', title: TITLES[status] ?? 'Error', status, detail: message, code, ...more }
}

export function problemResponse(problem: Problem): Response {
  const headers = { 'content-type': 'application/problem+json', ...problem.headers }
  return new Response(JSON.stringify(detailsOf(problem)), { status: problem.status, headers })
}

/** For people, where a page was asked for. */
export function problemText(problem: Problem): Response {
  const { title, status, detail } = detailsOf(problem)
  const headers = { 'content-type': 'text/plain; charset=utf-8', ...problem.headers }
  return new Response(`${status} ${title}: ${detail}\n`, { status, headers })
}

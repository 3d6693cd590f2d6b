import { DatabaseError } from '../../index.ts'
import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { VERSION } from '../../version.ts'
import { type Call, json, type Reply } from '../call.ts'
import type { TokenAccess } from './access.ts'
import type { AccessLog } from './access-log.ts'
import {
  addLimit,
  createToken,
  limitOf,
  limits,
  removeLimit,
  removeToken,
  replaceLimit,
  tokensOf,
} from './admin-tokens.ts'
import type { BasicAuth } from './basic-auth.ts'
import type { Metrics } from './metrics.ts'
import { problemOfNamespace } from './names.ts'
import type { NumberedAnswer } from './numbered.ts'
import { profile } from './profiles.ts'
import { DEFAULT_POOL } from './token.ts'

export interface AdminParts {
  /** Names of pools, and what lists the queues in them. */
  readonly pools: ReadonlyMap<string, { listQueues(): Promise<ReadonlyMap<string, readonly string[]>> }>
  /** Where tokens and limits are. */
  readonly database: Database
  readonly access: TokenAccess
  readonly metrics: Metrics
  readonly accessLog: AccessLog
  /** Undefined: whoever reaches the port may do everything. */
  readonly auth: BasicAuth | undefined
  readonly logger: Logger
}

type Handler = (parts: AdminParts, call: Call, namespace: string, token: string) => Reply | Promise<Reply>

/** `secret`: only for those who may administer, if anyone has to say so. */
export const ROUTES: Readonly<Record<string, { readonly answer: Handler; readonly secret?: boolean }>> = {
  'POST /token/:namespace': { answer: createToken, secret: true },
  'GET /token/:namespace': { answer: tokensOf, secret: true },
  'DELETE /token/:namespace/:token': { answer: removeToken, secret: true },
  'POST /token/:namespace/:token/limit': { answer: addLimit, secret: true },
  'PUT /token/:namespace/:token/limit': { answer: replaceLimit, secret: true },
  'GET /token/:namespace/:token/limit': { answer: limitOf, secret: true },
  'DELETE /token/:namespace/:token/limit': { answer: removeLimit, secret: true },
  'GET /limits': { answer: limits, secret: true },
  'GET /pools': { answer: pools },
  'GET /version': { answer: () => json(200, { version: VERSION, build_commit: '', build_date: '' }) },
  'GET /metrics': { answer: metrics },
  'GET /info': { answer: info },
  'GET /debug/pprof': { answer: (_, call) => profile(call, '') },
  'GET /debug/pprof/:name': { answer: (_, call, name) => profile(call, name) },
  'GET /accesslog': { answer: ({ accessLog }) => json(200, { status: accessLog.status }) },
  'POST /accesslog': { answer: switchAccessLog, secret: true },
}

/** Answers lmstfy's administration. Never rejects. */
export function admin(parts: AdminParts): NumberedAnswer {
  return (call, requestId) => answered(parts, call, requestId)
}

async function answered(parts: AdminParts, call: Call, requestId: string): Promise<Reply> {
  const { route, parameters } = match(call)
  if (!route) return json(404, { error: 'api not found' })
  if (route.secret && parts.auth && !parts.auth.admits(call.header('authorization')))
    return { status: 401, headers: { 'www-authenticate': 'Basic realm="lmstfy"' } }
  try {
    return await route.answer(parts, call, parameters[0] ?? '', parameters[1] ?? '')
  } catch (error) {
    parts.logger.error(
      { event: 'http-admin', requestId, error: (error as Error).message },
      'a request failed',
    )
    const failed = { error: 'internal error' }
    return error instanceof DatabaseError ? json(503, failed, { 'Retry-After': '1' }) : json(500, failed)
  }
}

/** A path as the access log may have it: with the namespace, and without a token, which a path that leads nowhere may have anywhere. */
export function shownPath(call: Call): string {
  const { route, pattern, parameters } = match(call)
  if (!route) return '-'
  const [namespace = ''] = parameters
  return problemOfNamespace(namespace) ? pattern : pattern.replace(':namespace', namespace)
}

function match({ method, path: given }: Call) {
  const path = given.length > 1 ? given.replace(/\/$/, '') : given
  const parameters: string[] = []
  const pattern = patternOf(path, parameters)
  return { route: ROUTES[`${method} ${pattern}`], pattern, parameters }
}

/** The path as the routes have it. Its parameters are added to these. */
function patternOf(path: string, parameters: string[]): string {
  const profiled = /^\/debug\/pprof\/([^/]+)$/.exec(path)
  if (profiled) {
    parameters.push(decoded(profiled[1]!))
    return '/debug/pprof/:name'
  }
  return path.replace(/^\/token\/([^/]+)(?:\/([^/]+))?/, (_, namespace: string, token?: string) => {
    parameters.push(decoded(namespace))
    if (token === undefined) return '/token/:namespace'
    parameters.push(decoded(token))
    return '/token/:namespace/:token'
  })
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

function pools(parts: AdminParts): Reply {
  return json(200, [...parts.pools.keys()])
}

async function metrics(parts: AdminParts): Promise<Reply> {
  const { registry } = parts.metrics
  return { status: 200, headers: { 'content-type': registry.contentType }, body: await registry.metrics() }
}

async function info({ pools: all }: AdminParts, { query }: Call): Promise<Reply> {
  const pool = all.get(query.get('pool') || DEFAULT_POOL)
  if (!pool) return json(400, { error: 'the pool was not exists' })
  const queues = await pool.listQueues()
  return {
    status: 200,
    headers: { 'content-type': 'text/plain; charset=utf-8' },
    body: JSON.stringify(Object.fromEntries(queues), null, 4),
  }
}

function switchAccessLog({ accessLog }: AdminParts, { query }: Call): Reply {
  const status = query.get('status')
  if (status !== 'enable' && status !== 'disable') return json(400, { error: 'invalid status' })
  accessLog.switch(status === 'enable')
  return json(200, { status: accessLog.status })
}

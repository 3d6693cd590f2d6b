import { DatabaseError, LockstepError } from '../../index.ts'
import type { Logger } from '../../logger.ts'
import { Problem } from '../../serving/problem.ts'
import type { Side, TokenKey } from '../../store/lmstfy-access.ts'
import type { Bodies } from '../bodies.ts'
import { type Call, json, type Reply } from '../call.ts'
import type { Pass, TokenAccess } from './access.ts'
import type { Jobs } from './jobs.ts'
import type { Metrics } from './metrics.ts'
import type { NumberedAnswer } from './numbered.ts'
import { BadParameter, type Defaults } from './parameters.ts'
import { INVALID_TOKEN } from './request.ts'
import { type Matched, match, type Route } from './routes.ts'
import { parseToken } from './token.ts'

export interface GatewayParts {
  readonly pools: ReadonlyMap<string, Jobs>
  readonly access: TokenAccess
  readonly metrics: Metrics
  readonly defaults: Defaults
  readonly bodies: Bodies
  readonly logger: Logger
}

/** For the metrics: nobody reads it. */
const NO_ANSWER = json(404, { msg: 'no job available' })
const NO_ROUTE = json(404, { error: 'api not found' })
/** Characters of a token in metrics. */
const SHOWN = 4
const ACTIONS: Readonly<Record<Side, string>> = { read: 'consume', write: 'produce' }

/** Answers lmstfy's API. Never rejects. */
export function gateway(parts: GatewayParts): NumberedAnswer {
  return (call, requestId) => answered(parts, call, requestId)
}

async function answered(parts: GatewayParts, call: Call, requestId: string): Promise<Reply> {
  const matched = match(call.method, call.path)
  if (!matched) return NO_ROUTE
  const begun = performance.now()
  const { pool, token } = parseToken(call.header('x-token') || call.query.get('token') || '')
  // Anybody can think of any number of pools and namespaces: they are labels once the token is known to exist.
  const labels = { pool: '', namespace: '', api: matched.route.path, method: call.method }
  const onAdmitted = () => Object.assign(labels, { pool, namespace: matched.namespace })
  const key = { pool, namespace: matched.namespace, token }
  const reply = await admitted(parts, call, matched, key, onAdmitted).catch((error: unknown) =>
    failed(parts.logger, call, error, requestId),
  )
  parts.metrics.answered(labels, reply.status, performance.now() - begun)
  return reply
}

/** In lmstfy's order: names, pool, token, limit, parameters, body. */
async function admitted(
  { pools, access, metrics, defaults, bodies }: GatewayParts,
  call: Call,
  { route, namespace, queue, id }: Matched,
  key: TokenKey,
  onAdmitted: () => void,
): Promise<Reply> {
  const problem = route.problemOf(namespace, queue)
  if (problem) return json(400, { error: problem })
  const jobs = pools.get(key.pool)
  if (!jobs) return json(404, { error: 'pool not found' })
  if (!route.isPublic) {
    if (key.token === '') return json(401, { error: 'token not found' })
    if (!(await access.exists(key))) return INVALID_TOKEN
    onAdmitted()
  }
  const isAllowed = () => access.exists(key)
  const intake = bodies.open()
  const body = (most: number) => call.body(most, (bytes) => intake.add(bytes))
  const request = { call, body, pool: key.pool, namespace, queue, id, jobs, defaults, metrics, isAllowed }
  const pass = route.side && (await access.take(key, route.side))
  if (route.side && !pass) return overLimit(metrics, key, route.side)
  const reply = await route
    .answer(request)
    .catch((error: unknown) => {
      if (error instanceof BadParameter) return json(400, { error: error.message })
      if (error instanceof Problem) return json(error.status, { error: error.message }, error.headers)
      return refunded(pass, error)
    })
    .finally(() => intake.close())
  if (pass && !counts(route, reply)) await pass.refund()
  return reply
}

/** Only what has brought or stored something does. */
function counts({ side }: Route, { status }: Reply): boolean {
  return status === (side === 'read' ? 200 : 201)
}

async function refunded(pass: Pass | undefined, error: unknown): Promise<never> {
  await pass?.refund().catch(() => {})
  throw error
}

function overLimit(metrics: Metrics, { pool, namespace, token }: TokenKey, side: Side): Reply {
  const action = ACTIONS[side]
  // Enough to know it by, if one has the list.
  metrics.limited({ pool, namespace, token: `${token.slice(0, SHOWN)}…`, action })
  return json(429, { msg: `token(${token}) ${action} reach the limit rate, please retry later` })
}

function isClosed(error: unknown): error is LockstepError {
  return error instanceof LockstepError && error.code === 'LOCKSTEP_CLOSED'
}

/** A client that went away gets no answer. Where the database can't be reached, another try may help. */
function failed(logger: Logger, { signal }: Call, error: unknown, requestId: string): Reply {
  if (error instanceof DatabaseError || isClosed(error)) {
    logger.warn({ event: 'http', requestId, error: error.message, code: error.code }, 'a request failed')
    return json(503, { error: 'internal error' }, { 'Retry-After': '1' })
  }
  if (signal.aborted) return NO_ANSWER
  logger.error({ event: 'http', requestId, error: (error as Error).message }, 'a request failed')
  return json(500, { error: 'internal error' })
}

import { type Context, Hono } from 'hono'
import type { Logger } from '../../logger.ts'
import { isStorable, STORABLE_TEXT } from '../../options.ts'
import type { Asked } from '../../serving/asked.ts'
import { nameIn } from '../../serving/names.ts'
import { type Arrival, hasLeft } from '../../serving/place.ts'
import { leftBehind, Problem, problemResponse } from '../../serving/problem.ts'
import type { Bodies, Intake } from '../bodies.ts'
import { type Access, requireQueues } from './access/access.ts'
import { type BodyLimits, readBody, readOptionalBody } from './body.ts'
import { describer } from './openapi.ts'
import { apiProblemOf } from './problems.ts'
import { queryOf } from './query.ts'
import { type Call, json, type Route, type Tools } from './route.ts'
import { ROUTES } from './routes/all.ts'
import { noQuery } from './schemas/look.ts'

/** A request, and how it has come. */
export interface Arrived extends Arrival {
  readonly asked: Asked
  /** The log names it by this. */
  readonly requestId: string
}

interface Env {
  Bindings: Arrived
}

export interface AppOptions {
  readonly access: Access
  readonly limits: BodyLimits
  readonly bodies: Bodies
  readonly tools: Tools
  readonly logger: Logger
}

/** The path stays percent-encoded until its parameters are read, since names of queues may contain anything. */
export function appOf(options: AppOptions): Hono<Env> {
  const { logger, tools } = options
  const app = new Hono<Env>({ getPath: (_, given) => (given as { env: Arrival }).env.path })
  app.onError((error, { env }) => {
    const log = numbered(logger, env.requestId)
    return problemResponse(hasLeft(env.asked, env) ? leftBehind(error, log) : apiProblemOf(error, log))
  })
  for (const route of ROUTES)
    app.on(route.method.toUpperCase(), pathOf(route), async (context) => {
      const intake = options.bodies.open()
      try {
        return await route.answer((await callOf(context, route, options, intake)) as Call<never>, tools)
      } finally {
        intake.close()
      }
    })
  const descriptionAt = describer(ROUTES)
  app.get('/openapi.json', ({ req, env }) => {
    queryOf(req.url, noQuery)
    return json(descriptionAt(env.base))
  })
  for (const path of new Set(['/openapi.json', ...ROUTES.map(pathOf)])) refuseOthers(app, path)
  app.notFound(() => {
    throw new Problem(404, 'LOCKSTEP_NOT_FOUND', 'there is no such route; openapi.json lists them')
  })
  return app
}

/** Tells of which request it is. */
function numbered(logger: Logger, requestId: string): Logger {
  const at = (level: 'debug' | 'info' | 'warn' | 'error') => (fields: object, message: string) =>
    logger[level]({ requestId, ...fields }, message)
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function pathOf({ path }: Route): string {
  return path.replaceAll(/\{(\w+)\}/g, ':$1')
}

/** Other methods. */
function refuseOthers(app: Hono<Env>, path: string): void {
  const methods = ROUTES.filter((route) => pathOf(route) === path).map(({ method }) => method)
  const allow = path === '/openapi.json' || methods.includes('get') ? ['GET', 'HEAD'] : []
  if (methods.includes('post')) allow.push('POST')
  app.all(path, ({ req }) => {
    throw new Problem(405, 'LOCKSTEP_NOT_FOUND', `${req.method} is not allowed here`, {
      allow: allow.join(', '),
    })
  })
}

/** Hono takes an escape that it can't decode as it stands, as if it were the name: `b%FCro` for `b%25FCro`. */
function requireDecodable(path: string): void {
  try {
    decodeURIComponent(path)
  } catch {
    throw new Problem(400, 'LOCKSTEP_BAD_OPTION', 'the path must be percent-encoded UTF-8')
  }
}

/** Nothing is read of a body before it's known that the request may be made. */
async function callOf(
  context: Context<Env>,
  route: Route,
  options: AppOptions,
  intake: Intake,
): Promise<Call> {
  const { access, limits } = options
  const { asked } = context.env
  const { scope } = route
  requireDecodable(context.env.path)
  const queue = nameIn(context.req.param('queue') ?? '')
  const grant = await access.admit(asked, context.env, { scope, queue: queue || undefined })
  const query = queryOf(asked.url, route.query ?? noQuery)
  const id = nameIn(context.req.param('id') ?? '')
  if (!isStorable(id)) throw new Problem(400, 'LOCKSTEP_BAD_OPTION', `the id must be ${STORABLE_TEXT}`)
  const read = route.mayBeEmpty ? readOptionalBody : readBody
  const body = route.body ? await read(asked, limits, intake) : undefined
  return {
    request: asked,
    grant,
    queue,
    id,
    query,
    body: body!,
    requireQueues: (queues) => requireQueues(grant, queues, scope),
  }
}

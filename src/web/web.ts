import { Hono } from 'hono'
import { Insight } from '../admin/insight.ts'
import { OptionError } from '../errors.ts'
import type { Lockstep } from '../index.ts'
import { insideOf } from '../lockstep.ts'
import type { Logger } from '../logger.ts'
import { type NodeHandler, nodeHandler } from '../serving/node.ts'
import { type Arrival, arrivalAt, hasLeft } from '../serving/place.ts'
import { leftBehind, Problem, problemOf, problemResponse, problemText } from '../serving/problem.ts'
import { BasicAuth } from './access/basic-auth.ts'
import { type Gate, Hook, OPEN } from './access/gate.ts'
import { type Guarding, guard } from './access/guard.ts'
import { addApi } from './api/api.ts'
import { secure } from './headers.ts'
import { type CheckedOptions, checkWebOptions, type WebOptions } from './options.ts'
import { addPages } from './pages/pages.tsx'
import { Reads } from './reads/reads.ts'
import { Redaction } from './reads/redaction.ts'
import type { WebEnv } from './view.ts'

/** The web page, to be mounted. */
export interface LockstepWeb {
  /** Answers a request, for Hono, Next.js, Bun, Deno and others. Never rejects. The URL may have `path` or not. */
  fetch(this: void, request: Request): Promise<Response>
  /** The same for Express, Fastify and `node:http`. Takes bodies that were parsed before, too. Never rejects. */
  readonly node: NodeHandler
}

/**
 * The web page of these queues with its JSON API. Needs the package `hono`. Says nothing to anyone until one of `authorize`,
 * `basicAuth` and `access` says who may see it. Actions are logged at the level info, with who did them.
 * @throws OptionError
 */
export function lockstepWeb(lockstep: Lockstep, options: WebOptions): LockstepWeb {
  const checked = checkWebOptions(options)
  const { database, logger, watch } = openedOf(lockstep)
  const gate = gateOf(checked, logger)
  const guarding = { gate, readOnly: checked.readOnly, origins: checked.origins }
  const reads = new Reads(lockstep, new Insight(database, watch), new Redaction(checked.redact, logger))
  const app = appOf(lockstep, guarding, reads, logger)
  const answer = async (request: Request, arrival: Arrival) => secure(await app.fetch(request, arrival))
  return {
    fetch: (request) => answer(request, arrivalAt(new URL(request.url).pathname, checked.path)),
    node: nodeHandler(answer, checked.path),
  }
}

function openedOf(lockstep: Lockstep): ReturnType<typeof insideOf> {
  try {
    return insideOf(lockstep)
  } catch {
    throw new OptionError('lockstepWeb: the first argument must be a Lockstep, of the same pg-lockstep')
  }
}

function gateOf({ authorize, users }: CheckedOptions, logger: Logger): Gate {
  if (authorize) return new Hook(authorize, logger)
  return users ? new BasicAuth(users) : OPEN
}

/** The path stays percent-encoded until its parameters are read, since names of queues may contain anything. */
function appOf(lockstep: Lockstep, guarding: Guarding, reads: Reads, logger: Logger): Hono<WebEnv> {
  const app = new Hono<WebEnv>({ getPath: (_, options) => (options as { env: Arrival }).env.path })
  const view = { reads, readOnly: guarding.readOnly }
  app.onError((error, { req, env }) => {
    const problem = hasLeft(req.raw, env) ? leftBehind(error, logger) : problemOf(error, logger)
    return req.path.startsWith('/api/') ? problemResponse(problem) : problemText(problem)
  })
  addApi(app, guarding, { lockstep, logger, view })
  app.use('*', guard(guarding, 'view'))
  app.on(['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'], '*', ({ req }) => {
    throw new Problem(405, 'LOCKSTEP_NOT_FOUND', `${req.method} is not allowed here`, { allow: 'GET, HEAD' })
  })
  addPages(app, view)
  app.notFound(() => {
    throw new Problem(404, 'LOCKSTEP_NOT_FOUND', 'there is no such page')
  })
  return app
}

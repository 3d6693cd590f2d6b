import { Insight } from '../../admin/insight.ts'
import { OptionError } from '../../errors.ts'
import type { Lockstep, Stats } from '../../index.ts'
import { insideOf, servedBy } from '../../lockstep.ts'
import type { Logger } from '../../logger.ts'
import { UnderWay } from '../../promises.ts'
import { defineQueue, type Queue } from '../../queue.ts'
import { type Asked, askedByWeb } from '../../serving/asked.ts'
import { askedHandler, type NodeHandler } from '../../serving/node.ts'
import { type Arrival, arrivalAt } from '../../serving/place.ts'
import { Problem, problemResponse } from '../../serving/problem.ts'
import { Shared } from '../../serving/shared.ts'
import { Bodies } from '../bodies.ts'
import { newUlid } from '../ulid.ts'
import { type Access, OPEN } from './access/access.ts'
import { Hook } from './access/hook.ts'
import { Tokens } from './access/tokens.ts'
import { type Arrived, appOf } from './app.ts'
import { type ApiOptions, type CheckedOptions, checkApiOptions } from './options.ts'
import type { Tools } from './route.ts'

/** The HTTP API, to be mounted. */
export interface LockstepApi {
  /**
   * Answers a request, for Hono, Next.js, Bun, Deno and others. Never rejects. The URL may have `path` or not. `arrival`: how it
   * came, where that is known better than its URL tells.
   */
  fetch(this: void, request: Request, arrival?: Arrival): Promise<Response>
  /** The same for Express, Fastify and `node:http`. Takes bodies that were parsed before, too. Never rejects. */
  readonly node: NodeHandler
  /** Answers claims that wait, refuses new requests, and resolves when those under way have ended. */
  stop(this: void): Promise<void>
}

/**
 * The HTTP API of these queues, for any language. Needs the packages `hono` and `zod`. It connects on first use, with the rights
 * of a gateway, as far as they are used. Stop it before the Lockstep is closed.
 * @throws OptionError
 */
export function lockstepApi(lockstep: Lockstep, options: ApiOptions): LockstepApi {
  return createApi(lockstep, options)
}

/** What an API has in common with others of its process. */
interface InCommon {
  /** Makes the definition of a queue that is only named. Default: defineQueue. */
  readonly define?: (name: string) => Queue
  /** Bounds the bodies of all. Default: `maxBodies` of its own. */
  readonly bodies?: Bodies
}

/** @throws OptionError */
export function createApi(
  lockstep: Lockstep,
  options: ApiOptions,
  { define = defineQueue, bodies }: InCommon = {},
): LockstepApi {
  const checked = checkApiOptions(options)
  const { logger } = openedOf(lockstep)
  const tools = toolsOf(lockstep, checked, definitions(checked.queues, define))
  const app = appOf({
    access: accessOf(lockstep, checked, logger),
    limits: checked,
    bodies: bodies ?? new Bodies(checked.maxBodies),
    tools,
    logger,
  })
  const calls = new UnderWay()
  let stopping: Promise<void> | undefined
  const answer = async (asked: Asked, arrival: Arrival) => {
    const requestId = newUlid(Date.now())
    const env = { ...arrival, asked, requestId }
    const response = stopping ? problemResponse(closing()) : await calls.watch(respond(env))
    return secured(response, requestId)
  }
  // Of a request, Hono reads what both have.
  const respond = async (env: Arrived) => app.fetch(env.asked as unknown as Request, env)
  const stop = async () => {
    tools.results.close()
    await tools.consumer.stop()
    await calls.ended()
  }
  const { path } = checked
  return {
    fetch: (request, arrival = arrivalAt(new URL(request.url).pathname, path ?? DEFAULT_PATH)) =>
      answer(askedByWeb(request), arrival),
    node: askedHandler(
      (asked, arrival) => answer(asked, path === undefined ? placed(arrival) : arrival),
      (problem) => secured(problemResponse(problem), newUlid(Date.now())),
      path,
    ),
    stop: () => {
      stopping ??= stop()
      return stopping
    },
  }
}

const DEFAULT_PATH = '/v1'

/** Where nothing says where it is mounted. */
function placed(arrival: Arrival): Arrival {
  return arrival.base === '' ? { ...arrival, ...arrivalAt(arrival.path, DEFAULT_PATH) } : arrival
}

function openedOf(lockstep: Lockstep): ReturnType<typeof insideOf> {
  try {
    return insideOf(lockstep)
  } catch {
    throw new OptionError('lockstepApi: the first argument must be a Lockstep, of the same pg-lockstep')
  }
}

function accessOf(lockstep: Lockstep, { access }: CheckedOptions, logger: Logger): Access {
  if (access === 'open') return OPEN
  return access === 'tokens' ? new Tokens(servedBy(lockstep)) : new Hook(access, logger)
}

function toolsOf(lockstep: Lockstep, { queues, maxJobs }: CheckedOptions, queue: Tools['queue']): Tools {
  const { database, logger, watch } = insideOf(lockstep)
  const served = servedBy(lockstep)
  return {
    lockstep,
    consumer: served.createConsumer({ queues }, queue),
    results: served.createResults(),
    insight: new Insight(database, watch),
    logger,
    stats: new Shared<Stats>(() => lockstep.stats()),
    maxJobs,
    queue,
    enqueueInTime: served.enqueueInTime,
    enqueueOnce: served.enqueueOnce,
    enqueueForResultInTime: served.enqueueForResultInTime,
  }
}

/** Most names that are kept. */
const MOST_NAMES = 10_000

/** What is known of a name is found out once. */
function definitions(given: readonly Queue[], define: (name: string) => Queue): (name: string) => Queue {
  const defined = new Map(given.map((queue) => [queue.name, queue]))
  const named = new Map<string, Queue>()
  return (name) => {
    const known = defined.get(name) ?? named.get(name)
    if (known) return known
    const queue = define(name)
    if (named.size >= MOST_NAMES) named.delete(named.keys().next().value!)
    named.set(name, queue)
    return queue
  }
}

function closing(): Problem {
  return new Problem(503, 'LOCKSTEP_CLOSED', 'the server is stopping: send it again', { 'retry-after': '1' })
}

function secured(response: Response, requestId: string): Response {
  response.headers.set('x-request-id', requestId)
  response.headers.set('cache-control', 'no-store')
  response.headers.set('x-content-type-options', 'nosniff')
  return response
}

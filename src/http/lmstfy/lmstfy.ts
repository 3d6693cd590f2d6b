import { insideOf } from '../../lockstep.ts'
import { Bodies } from '../bodies.ts'
import { type Answer, json } from '../call.ts'
import type { Observed } from '../observed.ts'
import { TokenAccess } from './access.ts'
import { AccessLog } from './access-log.ts'
import { admin, shownPath } from './admin.ts'
import { BasicAuth } from './basic-auth.ts'
import { gateway } from './gateway.ts'
import type { Jobs } from './jobs.ts'
import { Metrics } from './metrics.ts'
import { Migrating } from './migrating.ts'
import { type NumberedAnswer, numbered } from './numbered.ts'
import { checkLmstfyOptions, type LmstfyOptions, type LmstfySettings } from './options.ts'
import { Pool } from './pool.ts'
import { sizesOf } from './sizes.ts'
import { DEFAULT_POOL } from './token.ts'

/** lmstfy's API on the queues of ours, and its administration. */
export interface LmstfyParts {
  readonly api: Answer
  readonly admin: Answer
  /** Has an answer of another API in the access log, and in the metrics by the pattern of its route, if it has one. */
  note(pool: string, answer: Observed, api: string | undefined): void
  /** Of the API; others in the same process may share the bound. */
  readonly bodies: Bodies
  /** Answers consumes that wait; from now on, none waits. */
  quiet(): void
  /** Ends connections of its own, not the Locksteps that it was given. Requests are answered with 503 from now on. */
  stop(): Promise<void>
}

const STOPPED = json(503, { error: 'internal error' }, { 'Retry-After': '1' })

/** @throws OptionError */
export function createLmstfy(options: LmstfyOptions): LmstfyParts {
  const settings = checkLmstfyOptions(options)
  const pools = new Map([...settings.pools].map(([name, { lockstep }]) => [name, new Pool(name, lockstep)]))
  const { database, logger } = insideOf(settings.pools.get(DEFAULT_POOL)!.lockstep)
  const access = new TokenAccess(database)
  const metrics = new Metrics(pools.keys(), sizesOf([...pools.values()]))
  const accessLog = new AccessLog(logger, settings.accessLog)
  const { defaults } = settings
  const bodies = new Bodies(settings.maxBodies)
  const auth = settings.admin && new BasicAuth(settings.admin)
  let isStopped = false
  const served = (answer: NumberedAnswer) =>
    numbered(async (call, id) => (isStopped ? STOPPED : answer(call, id)))
  return {
    api: accessLog.around(
      served(gateway({ pools: routed(pools, settings), access, metrics, defaults, bodies, logger })),
    ),
    admin: accessLog.around(
      served(admin({ pools, database, access, metrics, accessLog, auth, logger })),
      shownPath,
    ),
    bodies,
    note: (pool, answer, api) => {
      accessLog.tell(answer)
      const { method, status, duration } = answer
      if (api !== undefined) metrics.answered({ pool, namespace: '', api, method }, status, duration)
    },
    quiet: () => {
      for (const pool of pools.values()) pool.quiet()
    },
    stop: async () => {
      isStopped = true
      for (const pool of pools.values()) pool.quiet()
      await Promise.all([...pools.values()].map((pool) => pool.stop()))
    },
  }
}

function routed(pools: ReadonlyMap<string, Pool>, settings: LmstfySettings): ReadonlyMap<string, Jobs> {
  const entries = [...pools].map(([name, pool]): [string, Jobs] => {
    const { migrateTo } = settings.pools.get(name)!
    return [name, migrateTo === undefined ? pool : new Migrating(pool, pools.get(migrateTo)!)]
  })
  return new Map(entries)
}

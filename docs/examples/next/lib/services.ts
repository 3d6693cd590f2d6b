import pg from 'pg'
import { Lockstep } from 'pg-lockstep'

export interface Services {
  readonly pool: pg.Pool
  readonly lockstep: Lockstep
}

/**
 * `next dev` loads this module anew after each change, and a build may put it into several bundles; `globalThis` stays the
 * same. A variable of the module would open another pool each time.
 */
const shared = globalThis as typeof globalThis & { services?: Services }

/**
 * One pool and one Lockstep per process, opened by the first request: `next build` loads the routes without a database.
 * @throws Error if DATABASE_URL is not set
 */
export function services(): Services {
  shared.services ??= open(process.env.DATABASE_URL)
  return shared.services
}

function open(connectionString: string | undefined): Services {
  if (!connectionString)
    throw new Error('set DATABASE_URL, such as postgresql://user:password@host:5432/database')
  const pool = new pg.Pool({ connectionString })
  // Without a listener, a connection that breaks while it is idle would end the process.
  pool.on('error', (error) => console.warn('an idle connection broke:', error.message))
  return { pool, lockstep: new Lockstep({ pool }) }
}

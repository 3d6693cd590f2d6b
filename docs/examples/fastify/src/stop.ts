import type { FastifyInstance } from 'fastify'
import type { Pool } from 'pg'
import type { Lockstep, Worker } from 'pg-lockstep'

export interface Running {
  readonly app: FastifyInstance
  readonly worker: Worker | undefined
  readonly lockstep: Lockstep
  readonly pool: Pool
}

/** Each part stops before what it needs: requests push jobs, handlers may push jobs, and both use connections. */
export async function stop({ app, worker, lockstep, pool }: Running): Promise<void> {
  await app.close()
  if (worker && !(await worker.stop())) {
    // A handler ignores its signal. Nothing may be awaited between the release and the end of the process.
    worker.releaseNow()
    process.exit(1)
  }
  await lockstep.close()
  await pool.end()
}

import { once } from 'node:events'
import type { Server } from 'node:http'
import type { Pool } from 'pg'
import type { Lockstep } from 'pg-lockstep'

export interface Running {
  readonly server: Server
  readonly lockstep: Lockstep
  readonly pool: Pool
}

/** Each part stops before what it needs: requests push jobs, and that uses connections. */
export async function stop({ server, lockstep, pool }: Running): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  await closed
  await lockstep.close()
  await pool.end()
}

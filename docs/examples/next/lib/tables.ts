import type { Pool } from 'pg'
import type { Lockstep } from 'pg-lockstep'

/** The application's own table, and the queue's. Run it at every deployment, before the new processes start. */
export async function migrate(pool: Pool, lockstep: Lockstep): Promise<void> {
  await lockstep.migrate()
  await pool.query(
    `CREATE TABLE IF NOT EXISTS orders (
       id text PRIMARY KEY,
       version integer NOT NULL,
       status text NOT NULL,
       history text[] NOT NULL DEFAULT '{}',
       performed_version integer NOT NULL DEFAULT 0
     )`,
  )
}

import pg from 'pg'
import { Lockstep } from 'pg-lockstep'
import { settings } from './settings.ts'
import { migrate } from './tables.ts'

const pool = new pg.Pool({ connectionString: settings().databaseUrl })
const lockstep = new Lockstep({ pool })
try {
  await migrate(pool, lockstep)
} finally {
  await lockstep.close()
  await pool.end()
}

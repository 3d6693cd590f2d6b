import { services } from './services.ts'
import { migrate } from './tables.ts'

const { pool, lockstep } = services()
try {
  await migrate(pool, lockstep)
} finally {
  await lockstep.close()
  await pool.end()
}

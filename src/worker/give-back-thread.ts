import { workerData } from 'node:worker_threads'
import pg from 'pg'
import { prepareSession } from '../postgres/connection.ts'
import { Database } from '../postgres/database.ts'
import { release } from '../store/settle.ts'
import type { GiveBackData } from './give-back.ts'

const { config, schema, held, done } = workerData as GiveBackData

const pool = new pg.Pool({ ...config, max: 1, onConnect: prepareSession } as pg.PoolConfig)
pool.on('error', () => {})
const database = new Database(pool, schema)

const [GIVEN_BACK, FAILED] = [1, 2]

let outcome = FAILED
try {
  for (const { rounds, ...holder } of held) await release(database, holder, rounds)
  outcome = GIVEN_BACK
} finally {
  Atomics.store(done, 0, outcome)
  Atomics.notify(done, 0)
}
await pool.end()

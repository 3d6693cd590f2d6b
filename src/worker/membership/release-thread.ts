import { workerData } from 'node:worker_threads'
import { silentLogger } from '../../logger.ts'
import { openDatabase } from '../../postgres/open-database.ts'
import { release } from '../../store/settle.ts'
import type { GiveBackData } from './release-now.ts'

const { config, schema, held, done } = workerData as GiveBackData

const database = openDatabase({ ...config, max: 1 }, { schema, logger: silentLogger, use: 'own' })

const [GIVEN_BACK, FAILED] = [1, 2]

let outcome = FAILED
try {
  for (const { rounds, ...holder } of held) await release(database, holder, rounds)
  outcome = GIVEN_BACK
} finally {
  Atomics.store(done, 0, outcome)
  Atomics.notify(done, 0)
}
await database.pool.end()

import { workerData } from 'node:worker_threads'
import { silentLogger } from '../../logger.ts'
import { fromModule } from '../../postgres/create-client.ts'
import { openDatabase } from '../../postgres/open-database.ts'
import { release } from '../../store/settle.ts'
import type { ReleaseData } from './release-now.ts'

const { config, schema, held, done } = workerData as ReleaseData

const database = openDatabase(
  { ...fromModule(config, { direct: false }), max: 1 },
  { schema, logger: silentLogger, use: 'own' },
)

const [RELEASED, FAILED] = [1, 2]

let outcome = FAILED
try {
  for (const { rounds, ...holder } of held) await release(database, holder, rounds)
  outcome = RELEASED
} finally {
  Atomics.store(done, 0, outcome)
  Atomics.notify(done, 0)
}
await database.pool.end()

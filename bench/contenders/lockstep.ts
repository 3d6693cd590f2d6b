import pg from 'pg'
import { type Batch, defineQueue, Lockstep, type NewJob, type QueueOptions, type Worker } from 'pg-lockstep'
import type { Contender, Push, Setting, Tuning, Update, Watcher } from '../contender.ts'

const BEST: Tuning = { shards: 10, batchSize: 100 }

/** An id gives strict order per key, so the keys are the ids. If order does not matter, each job has its own id. */
export function openLockstep(setting: Setting, tuning = tuningOf(setting)): Contender {
  const { connectionString, ordering, concurrency, retryIn } = setting
  const pool = new pg.Pool({ connectionString, max: setting.connections })
  // Without this, an idle connection that ends would end the process.
  pool.on('error', (error) => console.error(error))
  const lockstep = new Lockstep({ pool })
  const plain = defineQueue<Update>('updates', { shards: tuning.shards })
  let worker: Worker | undefined

  const toJob = ({ key, seq, due, padding }: Push): NewJob<Update> => ({
    id: ordering === 'any' ? `${key}:${seq}` : key,
    payload: { key, seq, ...(padding && { padding }) },
    score: seq,
    performIn: due === undefined ? undefined : new Date(due),
  })

  return {
    told: toldOf(setting, tuning),
    async setUp() {
      await lockstep.migrate()
      await pool.query('SELECT lockstep.create_queue($1, $2)', [plain.name, plain.shards])
      // An existing queue keeps its number of shards.
      await pool.query('UPDATE lockstep.queues SET shards = $2 WHERE name = $1', [plain.name, plain.shards])
    },
    enqueue: (pushes) => lockstep.enqueue(plain, pushes.map(toJob)),
    enqueueIn: (client, push) => lockstep.enqueue(plain, toJob(push), { tx: client }),
    async work(watcher) {
      const options: QueueOptions<Update> = {
        ...tuning,
        retryIn: retryIn === undefined ? undefined : () => retryIn,
        perform: (batch) => perform(batch, watcher),
      }
      worker = lockstep.createWorker({ queues: [defineQueue('updates', options)], slots: concurrency })
      await worker.start()
    },
    async close() {
      await worker?.stop()
      await pool.end()
    },
  }
}

export function tuningOf({ configuration, tuning }: Setting): Tuning {
  return { ...(configuration === 'best' && BEST), ...tuning }
}

function toldOf({ concurrency }: Setting, { shards, batchSize }: Tuning): string {
  const parts = [`slots ${concurrency}`]
  if (shards) parts.push(`shards ${shards}`)
  if (batchSize) parts.push(`batchSize ${batchSize}`)
  return parts.join(', ')
}

/** Passes everything that a handler gets at once to the watcher. */
export async function perform(batch: Batch<Update>, watcher: Watcher): Promise<void> {
  const updates = [...batch.values()].flat()
  await watcher.starts(updates)
  watcher.ends(updates)
}

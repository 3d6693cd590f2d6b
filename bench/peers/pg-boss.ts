import type { ClientBase } from 'pg'
import { type Job, PgBoss } from 'pg-boss'
import type { Contender, Push, Setting, Update, Watcher } from '../contender.ts'

const QUEUE = 'updates'
/**
 * As https://pgboss.io advises for throughput: large batches, fetched again at once while they are full, and
 * notifications.
 */
const BEST = { batchSize: 1_000, burstWhenBatchFull: true } as const
/** A batch of one key's jobs is one job: with strict order, no fetch takes more of a key. */
const BEST_IN_ORDER = { ...BEST, batchSize: 100 } as const

/**
 * For strict order per key, a queue has the policy `key_strict_fifo`. By default `work` takes a job every two seconds.
 * So that its pause is not what is measured, `concurrency` loops of `fetch` and `complete` take one job at a time.
 */
export function open(setting: Setting): Contender {
  const { connectionString, configuration, ordering, concurrency, connections, retryIn } = setting
  const best = configuration === 'best'
  const boss = new PgBoss({ connectionString, max: connections, useListenNotify: true })
  boss.on('error', (error) => console.error(error))
  const started = boss.start()
  const strict = ordering === 'per key'
  const tuning = { ...(strict ? BEST_IN_ORDER : BEST), localConcurrency: concurrency }
  let open = true
  let loops: Promise<void>[] = []

  const insertOf = ({ key, seq, due }: Push) => ({
    data: { key, seq },
    ...(strict && { singletonKey: key }),
    ...(due !== undefined && { startAfter: new Date(due) }),
  })

  async function loop(watcher: Watcher): Promise<void> {
    while (open) {
      const [job] = await boss.fetch<Update>(QUEUE)
      if (!job) await new Promise((resolve) => setTimeout(resolve, 5))
      else {
        try {
          await handle([job], watcher)
          await boss.complete(QUEUE, job.id)
        } catch (error) {
          await boss.fail(QUEUE, job.id, error as Error)
        }
      }
    }
  }

  return {
    told: best
      ? `batchSize ${tuning.batchSize}, localConcurrency ${concurrency}, burstWhenBatchFull, notify`
      : `fetch and complete, one at a time, ${concurrency} side by side`,
    async setUp() {
      await started
      await boss.createQueue(QUEUE, {
        notify: best,
        ...(strict && { policy: 'key_strict_fifo' }),
        ...(retryIn !== undefined && { retryDelay: retryIn }),
      })
    },
    async enqueue(pushes) {
      await started
      if (pushes.length > 1) return boss.insert(QUEUE, pushes.map(insertOf))
      const { data, ...options } = insertOf(pushes[0]!)
      return boss.send(QUEUE, data, options)
    },
    async enqueueIn(client, push) {
      return boss.send(QUEUE, insertOf(push).data, { db: databaseOf(client) })
    },
    async work(watcher) {
      await started
      if (best) await boss.work<Update>(QUEUE, tuning, (jobs) => handle(jobs, watcher))
      else loops = Array.from({ length: concurrency }, () => loop(watcher))
    },
    async close() {
      open = false
      await Promise.all(loops)
      await boss.stop({ graceful: false })
    },
  }
}

async function handle(jobs: readonly Job<Update>[], watcher: Watcher): Promise<void> {
  const updates = jobs.map(({ data }) => data)
  await watcher.starts(updates)
  watcher.ends(updates)
}

function databaseOf(client: ClientBase) {
  return { executeSql: (text: string, values?: unknown[]) => client.query(text, values) }
}

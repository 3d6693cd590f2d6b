import { type BackendFactory, createPostgresBackend, Queue, Worker } from 'bullmq'
import type { Contender, Push, Setting, Update } from '../contender.ts'

const QUEUE = 'updates'
/** https://docs.bullmq.io/guide/parallelism-and-concurrency advises some 100 to 300 at a time if jobs do not compute. */
const BEST = 100

/**
 * It has order per key only in its commercial edition. It runs on Redis if there is a Redis URL, otherwise on Postgres.
 */
export function open(setting: Setting): Contender {
  const { connectionString, redisUrl, configuration, concurrency: asked } = setting
  const concurrency = configuration === 'best' ? BEST : asked
  const connection = redisUrl
    ? { url: redisUrl, maxRetriesPerRequest: null }
    : { connectionString, max: configuration === 'best' ? 20 : undefined, migrate: true }
  const backend = (redisUrl ? undefined : createPostgresBackend) as BackendFactory<never, never> | undefined
  const options = { connection: connection as never }
  const queue = backend ? new Queue(QUEUE, options, backend) : new Queue(QUEUE, options)
  let worker: Pick<Worker, 'close'> | undefined

  const jobOf = ({ key, seq, due }: Push) => ({
    name: 'update',
    data: { key, seq },
    opts: due === undefined ? undefined : { delay: due - Date.now() },
  })

  return {
    told: `concurrency ${concurrency}, on ${redisUrl ? 'Redis' : 'Postgres'}`,
    async setUp() {
      await queue.waitUntilReady()
    },
    async enqueue(pushes) {
      if (pushes.length > 1) return queue.addBulk(pushes.map(jobOf))
      const { name, data, opts } = jobOf(pushes[0]!)
      return queue.add(name, data, opts)
    },
    async work(watcher) {
      const process = async ({ data }: { data: Update }) => {
        const updates = [data]
        await watcher.starts(updates)
        watcher.ends(updates)
      }
      const workerOptions = { ...options, concurrency }
      const started = backend
        ? new Worker(QUEUE, process, workerOptions, backend)
        : new Worker(QUEUE, process, workerOptions)
      worker = started
      started.on('error', (error) => console.error(error))
      await started.waitUntilReady()
    },
    async close() {
      await worker?.close()
      await queue.close()
    },
  }
}

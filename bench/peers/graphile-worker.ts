import {
  type AddJobsJobSpec,
  Logger,
  makeWorkerUtils,
  type Runner,
  run,
  type Task,
  type WorkerUtils,
} from 'graphile-worker'
import pg from 'pg'
import type { Contender, Push, Setting, Update, Watcher } from '../contender.ts'

/** As https://worker.graphile.org/docs/performance advises. */
const BEST = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
} as const

/** For strict order per key, each key has a named queue, whose jobs are performed one at a time. */
export function open(setting: Setting): Contender {
  const { connectionString, configuration, ordering, concurrency, connections, retryIn } = setting
  const logger = new Logger(() => () => {})
  const pgPool = openPool(connectionString, connections)
  const worker =
    configuration === 'best'
      ? BEST
      : { concurrentJobs: concurrency, maxPoolSize: Math.max(10, concurrency + 2) }
  const preset = { worker }
  let utils: WorkerUtils
  let runner: Runner | undefined

  const specOf = ({ key, seq, due }: Push): AddJobsJobSpec => ({
    identifier: 'update',
    payload: { key, seq },
    queueName: ordering === 'per key' ? key : undefined,
    runAt: due === undefined ? undefined : new Date(due),
    maxAttempts: retryIn === undefined ? undefined : 1,
  })

  return {
    told: Object.entries(worker)
      .map(([name, value]) => `${name} ${typeof value === 'object' ? value.size : value}`)
      .join(', '),
    async setUp() {
      utils = await makeWorkerUtils({ pgPool, logger })
      await utils.migrate()
    },
    async enqueue(pushes) {
      utils ??= await makeWorkerUtils({ pgPool, logger })
      if (pushes.length > 1) return utils.addJobs(pushes.map(specOf))
      const { identifier, payload, ...spec } = specOf(pushes[0]!)
      return utils.addJob(identifier, payload, spec)
    },
    /** Its SQL function is the documented way to add a job in a transaction. */
    enqueueIn: (client, { key, seq }) =>
      client.query('SELECT graphile_worker.add_job($1, $2)', ['update', JSON.stringify({ key, seq })]),
    async work(watcher) {
      runner = await run({
        pgPool: openPool(connectionString, worker.maxPoolSize),
        preset,
        logger,
        noHandleSignals: true,
        taskList: { update: taskOf(watcher) },
      })
    },
    async close() {
      await runner?.stop()
      await utils?.release()
      await pgPool.end().catch(() => {})
    },
  }
}

function openPool(connectionString: string, max: number): pg.Pool {
  const pool = new pg.Pool({ connectionString, max })
  pool.on('error', (error) => console.error(error))
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

function taskOf(watcher: Watcher): Task {
  return async (payload) => {
    const updates = [payload as Update]
    await watcher.starts(updates)
    watcher.ends(updates)
  }
}

import { setTimeout as sleep } from 'node:timers/promises'
import { defineQueue, Lockstep } from 'pg-lockstep'
import { Database } from '../../src/postgres/database.ts'
import type { Cursor } from '../../src/store/claim.ts'
import { exchange } from '../../src/store/exchange.ts'
import { registerProcess } from '../../src/store/process.ts'
import { complete } from '../../src/store/settle.ts'
import type { Bench, Case, Figures } from '../case.ts'
import { best, LOCKSTEP } from '../entrants.ts'
import { median } from '../measure/percentile.ts'
import { startWorkerProcess } from '../worker-process.ts'
import { fill, processAll, settle } from './work.ts'

const CLAIMS = 300
const PER_CLAIM = 10
/** ms */
const AN_HOUR = 3_600_000

const jobs = (seq: number) => ({ key: 'job', seq })

/** ms of a claim of ten jobs, which are completed after it. */
async function claimTime({ contender, size, pool }: Bench): Promise<Figures> {
  await fill(contender, size.jobs, jobs)
  await settle(pool)
  const database = new Database(pool, 'lockstep')
  const info = { host: 'bench', pid: 1, version: '0', slots: 1, queues: ['updates'] }
  const processId = await registerProcess(pool, database.schema, info, AN_HOUR)
  const { rows } = await pool.query('SELECT queue_id, shards FROM lockstep.queues')
  const queueId: number = rows[0].queue_id
  const cursors = Array.from({ length: rows[0].shards }, (): Cursor => ({ after: null, afterId: '' }))
  const times: number[] = []
  for (let claim = 0; claim < CLAIMS; claim += 1) {
    const shard = claim % cursors.length
    const key = { queueId, shard, lane: 0 }
    const wish = { key, cursor: cursors[shard]!, count: PER_CLAIM, maxPayloads: undefined, maxBytes: 2 ** 22 }
    const startedAt = performance.now()
    const { claims } = await exchange(database, processId, [], [wish])
    times.push(performance.now() - startedAt)
    const { rounds } = claims[0]!
    const last = rounds.at(-1)!
    cursors[shard] = { after: last.performIn, afterId: last.id }
    await complete(database, { processId, queueId }, rounds)
  }
  return { value: median(times) }
}

const depths = [10_000, 1_000_000, 10_000_000].map(
  (depth): Case => ({
    name: `depth-${depth}`,
    title: `claim of ${PER_CLAIM} with ${depth.toLocaleString('en')} waiting`,
    unit: 'ms',
    entrants: best([LOCKSTEP]),
    full: { jobs: depth, patience: 600 },
    quick: { jobs: depth, patience: 60, repeats: depth > 10_000 ? 1 : undefined },
    inQuick: depth <= 1_000_000,
    run: claimTime,
  }),
)

/** Work by this many processes, from the moment the queue is no longer paused. */
async function workInProcesses({ contender, setting, size }: Bench, processes: number): Promise<Figures> {
  await fill(contender, size.jobs, jobs)
  const lockstep = new Lockstep({ connectionString: setting.connectionString })
  const queue = defineQueue('updates', {})
  await lockstep.pause(queue)
  const workers = await Promise.all(
    Array.from({ length: processes }, () => startWorkerProcess(setting, { handler: 0 })),
  )
  const done = () => workers.reduce((sum, worker) => sum + worker.report.done, 0)
  const startedAt = performance.now()
  await lockstep.resume(queue)
  while (done() < size.jobs && performance.now() - startedAt < size.patience * 1000) await sleep(5)
  const seconds = (performance.now() - startedAt) / 1000
  const value = done() / seconds
  const undone = size.jobs - done()
  await Promise.all(workers.map((worker) => worker.stop()))
  await lockstep.close()
  return { value, undone }
}

const processes = [1, 2, 4].map(
  (count): Case => ({
    name: `processes-${count}`,
    title: `processing by ${count} ${count === 1 ? 'process' : 'processes'}`,
    unit: 'jobs/s',
    entrants: best([LOCKSTEP]),
    full: { jobs: 100_000, patience: 60 },
    quick: { jobs: 30_000, patience: 20 },
    inQuick: false,
    run: (bench) => workInProcesses(bench, count),
  }),
)

const shards = [1, 10, 100, 1_000, 10_000].map(
  (count): Case => ({
    name: `shards-${count}`,
    title: `processing ${count.toLocaleString('en')} shards`,
    unit: 'jobs/s',
    entrants: best([LOCKSTEP]),
    full: { jobs: 100_000, patience: 60 },
    quick: { jobs: 20_000, patience: 20 },
    inQuick: false,
    tuning: { shards: count },
    run: (bench) => processAll(bench, jobs),
  }),
)

/** Most MB that a process takes that only works, with this much before it. */
async function memory({ contender, setting, size }: Bench): Promise<Figures> {
  await fill(contender, size.jobs, jobs)
  const worker = await startWorkerProcess(setting, { handler: 0 })
  const until = performance.now() + size.patience * 1000
  while (worker.report.done < size.jobs && performance.now() < until) await sleep(50)
  const { rss, done } = worker.report
  await worker.stop()
  return { value: rss / 1_000_000, undone: size.jobs - done }
}

const memories: readonly Case[] = [
  {
    name: 'memory',
    title: 'memory of a worker process',
    unit: 'MB',
    entrants: [{ name: LOCKSTEP, configuration: 'default' }, ...best([LOCKSTEP])],
    full: { jobs: 1_000_000, patience: 300 },
    quick: { jobs: 50_000, patience: 20 },
    run: memory,
  },
]

export const lockstepCases: readonly Case[] = [...depths, ...processes, ...shards, ...memories]

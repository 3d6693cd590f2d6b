import { setTimeout as sleep } from 'node:timers/promises'
import { defineQueue, Lockstep } from 'pg-lockstep'
import type { Bench, Case, Figures } from '../case.ts'
import { openLockstep } from '../contenders/lockstep.ts'
import { best, LOCKSTEP } from '../entrants.ts'
import { median } from '../measure/percentile.ts'
import { startWorkerProcess } from '../worker-process.ts'
import { fill, settle, workOff } from './work.ts'

const CLAIMS = 300
const PER_CLAIM = 10

const jobs = (seq: number) => ({ key: 'job', seq })

/** ms of a claim of ten jobs, each of which is completed after it. */
async function claimTime({ contender, size, pool }: Bench): Promise<Figures> {
  await fill(contender, size.jobs, jobs)
  await settle(pool)
  const { rows } = await pool.query(
    `INSERT INTO lockstep.processes (host, pid, version, slots, queues, expires_at)
     VALUES ('bench', 1, '0', 1, '{updates}', now() + interval '1 hour') RETURNING process_id`,
  )
  const queue = (await pool.query('SELECT queue_id, shards FROM lockstep.queues')).rows[0]
  const cursors = Array.from({ length: queue.shards }, () => ({ after: null as string | null, id: '' }))
  const times: number[] = []
  for (let claim = 0; claim < CLAIMS; claim += 1) {
    const shard = claim % queue.shards
    const { after, id } = cursors[shard]!
    const startedAt = performance.now()
    const taken = await pool.query({
      name: 'claim',
      text: `SELECT * FROM lockstep.claim($1, ARRAY[$2::integer], ARRAY[$3::integer], '{0}', ARRAY[$4::integer], '{NULL}', ARRAY[$5::bigint], ARRAY[$6])`,
      values: [rows[0].process_id, queue.queue_id, shard, PER_CLAIM, after, id],
    })
    times.push(performance.now() - startedAt)
    const rounds = taken.rows.filter((row) => row.id !== null)
    const last = rounds.at(-1)!
    cursors[shard] = { after: last.perform_in, id: last.id }
    const nulls = rounds.map(() => null)
    await pool.query('SELECT * FROM lockstep.complete($1, $2, $3, $4, $5, $6, false)', [
      rounds.map(() => queue.queue_id),
      rows[0].process_id,
      rounds.map((row) => row.id),
      rounds.map((row) => row.fence),
      nulls,
      nulls,
    ])
  }
  return { value: median(times) }
}

const depths = [10_000, 1_000_000, 10_000_000].map((depth): Case => {
  const repeats = depth > 10_000 ? 1 : undefined
  return {
    name: `depth-${depth}`,
    title: `claim of ${PER_CLAIM} with ${depth.toLocaleString('en')} waiting`,
    unit: 'ms',
    entrants: best([LOCKSTEP]),
    full: { jobs: depth, patience: 600, repeats },
    quick: { jobs: depth, patience: 60, repeats },
    inQuick: depth <= 1_000_000,
    run: claimTime,
  }
})

/** By so many processes, from the moment the queue is no longer paused. */
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
    title: `work off by ${count} ${count === 1 ? 'process' : 'processes'}`,
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
    title: `work off ${count.toLocaleString('en')} shards`,
    unit: 'jobs/s',
    entrants: best([LOCKSTEP]),
    full: { jobs: 100_000, patience: 60 },
    quick: { jobs: 20_000, patience: 20 },
    inQuick: false,
    run: async (bench) => {
      await bench.contender.close()
      const contender = openLockstep(bench.setting, { shards: count, batchSize: 100 })
      await contender.setUp()
      return workOff({ ...bench, contender }, jobs)
    },
  }),
)

/** MB that a process takes at most which does nothing but work, with so much before it. */
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

import { setTimeout as sleep } from 'node:timers/promises'
import { type Consumer, defineQueue, Lockstep } from 'pg-lockstep'
import type { Bench, Case, Figures } from '../case.ts'
import { LOCKSTEP, standard } from '../entrants.ts'
import { costOf } from '../measure/cost.ts'
import { percentilesOf } from '../measure/percentile.ts'
import { settle } from './work.ts'

const BULK = 1_000
const BODY = 'x'.repeat(100)
const QUEUE = defineQueue<string>('updates', { shards: 16 })
const LEASE = 30_000

async function fill(lockstep: Lockstep, jobs: number): Promise<void> {
  for (let from = 0; from < jobs; from += BULK) {
    const some = Array.from({ length: Math.min(BULK, jobs - from) }, (_, n) => ({
      id: from + n,
      payload: BODY,
    }))
    await lockstep.enqueue(QUEUE, some)
  }
}

/** Claims until nothing is left, and completes what it has claimed. Resolves to how many that was. */
async function consumeAll(consumer: Consumer, count: number): Promise<number> {
  let done = 0
  for (;;) {
    const jobs = await consumer.claim({ queues: QUEUE, count, lease: LEASE })
    if (jobs.length === 0) return done
    await Promise.all(jobs.map((job) => consumer.complete(job)))
    done += jobs.length
  }
}

/** Jobs a second that are claimed and completed by so many callers, `count` at once. */
async function consume(
  { setting, size, pool, meters }: Bench,
  callers: number,
  count: number,
): Promise<Figures> {
  const lockstep = new Lockstep({ connectionString: setting.connectionString })
  await fill(lockstep, size.jobs)
  await settle(pool)
  const consumer = lockstep.createConsumer({ queues: [QUEUE] })
  const before = await meters.read()
  const startedAt = performance.now()
  const done = await Promise.all(Array.from({ length: callers }, () => consumeAll(consumer, count)))
  const seconds = (performance.now() - startedAt) / 1000
  const all = done.reduce((sum, one) => sum + one, 0)
  if (all !== size.jobs) throw new Error(`${all} of ${size.jobs} jobs were done`)
  const cost = costOf(before, await meters.read(), size.jobs)
  await consumer.stop()
  await lockstep.close()
  return { value: size.jobs / seconds, cost }
}

const CALLERS = 5_000
const PUSH_EVERY = 50

/** ms from a push until one of thousands that wait has the job. */
async function wake({ setting, size }: Bench): Promise<Figures> {
  const lockstep = new Lockstep({ connectionString: setting.connectionString })
  const consumer = lockstep.createConsumer({ queues: [QUEUE] })
  const [times, pushedAt]: [number[], number[]] = [[], []]
  const callers = Array.from({ length: CALLERS }, async () => {
    const [job] = await consumer.claim({ queues: QUEUE, lease: LEASE, wait: 600_000 })
    if (job) times.push(performance.now() - pushedAt[Number(job.id)]!)
  })
  await sleep(3_000)
  for (let id = 0; id < size.jobs; id += 1) {
    pushedAt.push(performance.now())
    await lockstep.enqueue(QUEUE, { id, payload: BODY })
    await sleep(PUSH_EVERY)
  }
  await sleep(1_000)
  await consumer.stop()
  await Promise.all(callers)
  await lockstep.close()
  if (times.length < size.jobs) throw new Error(`${times.length} of ${size.jobs} jobs came`)
  return percentilesOf(times)
}

const COMMON = { entrants: standard([LOCKSTEP]), inQuick: false } as const

export const consumeCases: readonly Case[] = [
  {
    ...COMMON,
    name: 'consume-1',
    title: 'claimed and completed one by one, 32 callers',
    unit: 'jobs/s',
    full: { jobs: 60_000, patience: 60 },
    quick: { jobs: 20_000, patience: 60 },
    run: (bench) => consume(bench, 32, 1),
  },
  {
    ...COMMON,
    name: 'consume-100',
    title: 'claimed by the hundred and completed, 4 callers',
    unit: 'jobs/s',
    full: { jobs: 100_000, patience: 60 },
    quick: { jobs: 20_000, patience: 60 },
    run: (bench) => consume(bench, 4, 100),
  },
  {
    ...COMMON,
    name: 'consume-waiting',
    title: 'a push until one of 5,000 that wait has the job',
    unit: 'ms',
    full: { jobs: 400, patience: 60 },
    quick: { jobs: 100, patience: 60 },
    run: wake,
  },
]

import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import pg from 'pg'
import { defineQueue, Lockstep, type Queue } from 'pg-lockstep'
import type { Bench, Case, Figures, Size } from '../case.ts'
import { LOCKSTEP, standard } from '../entrants.ts'
import { costOf } from '../measure/cost.ts'
import { percentilesOf } from '../measure/percentile.ts'
import { settle } from './work.ts'

const PRODUCERS = 64
const BULK = 1_000
/** Tenants with one job each. */
const SMALL = 50_000

const RULES = {
  rules: [
    { over: 100, per: 86_400, lane: 1 },
    { over: 10, per: 60, lane: 2 },
  ],
}

const PUSHES = {
  none: { title: 'no tenant', tenant: null, queue: defineQueue<number>('updates', {}) },
  lanes: { title: 'one tenant, no rules', tenant: 'acme', queue: defineQueue<number>('updates', {}) },
  rules: {
    title: 'one tenant, two rules',
    tenant: 'acme',
    queue: defineQueue<number>('updates', { fairness: RULES }),
  },
}

type Pushes = (typeof PUSHES)[keyof typeof PUSHES]

/** All producers push for one tenant, each in a transaction of its own, so that many are open at once. */
async function push({ setting, size, meters }: Bench, { queue, tenant }: Pushes): Promise<Figures> {
  const { connectionString } = setting
  const pool = new pg.Pool({ connectionString, max: PRODUCERS })
  const lockstep = new Lockstep({ connectionString })
  let next = 0
  const produce = async (jobs: number) => {
    while (next < jobs) {
      next += 1
      const id = next
      const client = await pool.connect()
      await client.query('BEGIN')
      await lockstep.enqueue(queue, { id, payload: id, tenant }, { tx: client })
      await client.query('COMMIT')
      client.release()
    }
  }
  const all = (jobs: number) => Promise.all(Array.from({ length: PRODUCERS }, () => produce(jobs)))
  const warmUp = 10 * PRODUCERS
  await all(warmUp)
  const before = await meters.read()
  const startedAt = performance.now()
  await all(warmUp + size.jobs)
  const seconds = (performance.now() - startedAt) / 1000
  const cost = costOf(before, await meters.read(), size.jobs)
  await Promise.all([lockstep.close(), pool.end()])
  return { value: size.jobs / seconds, cost }
}

/** A large tenant, and as many small ones beside it, each with one job. */
async function fillFor(lockstep: Lockstep, queue: Queue<number>, large: number, small: number) {
  const tenantOf = (n: number) => (n < large ? 'large' : `small ${n}`)
  for (let from = 0; from < large + small; from += BULK) {
    const jobs = Array.from({ length: BULK }, (_, n) => ({
      id: from + n,
      payload: from + n,
      tenant: tenantOf(from + n),
    }))
    await lockstep.enqueue(queue, jobs)
  }
}

type Measure = 'claim' | 'memory'

/** How long claims take, or how much the heap of the worker's process grows, while the first `size.jobs` are performed. */
async function claim({ setting, size, pool }: Bench, small: number, measure: Measure): Promise<Figures> {
  const times: number[] = []
  const instrument = {
    claim:
      () =>
      ({ duration }: { readonly duration: number }) =>
        void times.push(duration),
  }
  const { connectionString, concurrency: slots } = setting
  const lockstep = new Lockstep({ connectionString, instrumentation: [instrument] })
  let done = 0
  const queue = defineQueue<number>('updates', {
    async perform(batch) {
      await sleep(1)
      done += batch.size
    },
  })
  await fillFor(lockstep, queue, 1_000_000, small)
  await settle(pool)
  const before = heapUsed()
  const worker = lockstep.createWorker({ queues: [queue], slots })
  await worker.start()
  const until = performance.now() + size.patience * 1000
  while (done < size.jobs && performance.now() < until) await sleep(20)
  const grown = heapUsed() - before
  await worker.stop()
  await lockstep.close()
  return measure === 'claim' ? percentilesOf(times) : { value: grown / 1_000_000 }
}

/** Bytes, without garbage. */
function heapUsed(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed
}

const MILLION: Size = { jobs: 30_000, patience: 60, repeats: 1 }

export const tenantCases: readonly Case[] = [
  ...Object.entries(PUSHES).map(
    ([name, pushes]): Case => ({
      name: `tenants-push-${name}`,
      title: `${PRODUCERS} producers in transactions, ${pushes.title}`,
      unit: 'jobs/s',
      connections: 2 * PRODUCERS,
      entrants: standard([LOCKSTEP]),
      full: { jobs: 50_000, patience: 60 },
      quick: { jobs: 3_000, patience: 20 },
      inQuick: false,
      run: (bench) => push(bench, pushes),
    }),
  ),
  ...(['claim', 'memory'] as const).flatMap((measure) =>
    [0, SMALL].map(
      (small): Case => ({
        name: `tenants-${measure}-${small === 0 ? 'one' : 'many'}`,
        title: `${measure === 'claim' ? 'claims' : 'heap'} with a million jobs of one tenant${small === 0 ? '' : ` and one each of ${small.toLocaleString('en')}`}`,
        unit: measure === 'claim' ? 'ms' : 'MB',
        entrants: standard([LOCKSTEP]),
        full: MILLION,
        quick: MILLION,
        inQuick: false,
        run: (bench) => claim(bench, small, measure),
      }),
    ),
  ),
]

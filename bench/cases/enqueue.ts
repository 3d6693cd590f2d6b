import pg from 'pg'
import type { Bench, Case, Figures, Size } from '../case.ts'
import type { Push } from '../contender.ts'
import { BARE, LOCKSTEP, POSTGRES_PEERS, REDIS_PEERS, standard } from '../entrants.ts'
import { costOf } from '../measure/cost.ts'
import { startWorkerProcess, type WorkerProcess } from '../worker-process.ts'

const BULK = 1_000
const HOT_IDS = 1_000
/** Calls of each producer before the measurement. */
const WARM_UPS = 10

function pushOf(seq: number): Push {
  return { key: 'job', seq }
}

/** Pushes `jobs` by `producers` side by side, with `perCall` in each call. */
async function produce(
  { size, meters }: Bench,
  producers: number,
  perCall: number,
  call: (from: number) => Promise<unknown>,
): Promise<Figures> {
  let next = 0
  const producer = async () => {
    while (next < size.jobs) {
      next += perCall
      await call(next - perCall)
    }
  }
  const before = await meters.read()
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: producers }, producer))
  const seconds = (performance.now() - startedAt) / 1000
  return { value: size.jobs / seconds, cost: costOf(before, await meters.read(), size.jobs) }
}

/** Opens all sessions and makes their plans. */
async function warmUp(producers: number, call: (seq: number) => Promise<unknown>): Promise<void> {
  for (let seq = -WARM_UPS * producers; seq < 0; seq += producers) {
    await Promise.all(Array.from({ length: producers }, (_, index) => call(seq + index)))
  }
}

async function oneByOne(bench: Bench, producers: number): Promise<Figures> {
  const push = (seq: number) => bench.contender.enqueue([pushOf(seq)])
  await warmUp(producers, push)
  return produce(bench, producers, 1, push)
}

async function inBulk(bench: Bench, keyOf: (seq: number) => string): Promise<Figures> {
  return produce(bench, 1, BULK, (from) =>
    bench.contender.enqueue(
      Array.from({ length: BULK }, (_, index) => ({ key: keyOf(from + index), seq: from + index })),
    ),
  )
}

/** Pushes payloads for ids that already wait. */
async function merging(bench: Bench): Promise<Figures> {
  const keyOf = (seq: number) => `hot-${seq % HOT_IDS}`
  await bench.contender.enqueue(
    Array.from({ length: HOT_IDS }, (_, index) => ({ key: keyOf(index), seq: index - HOT_IDS })),
  )
  return inBulk(bench, keyOf)
}

type Workers = 'none' | 'waiting' | 'busy'
const PRODUCERS = 32
const WORKER_HANDLER = { none: 0, waiting: 0, busy: 100 } as const

/** Writes a row of the domain and pushes a job, both in one transaction. */
async function inTransactions(bench: Bench, workers: Workers): Promise<Figures> {
  const { contender, setting } = bench
  const pool = new pg.Pool({ connectionString: setting.connectionString, max: PRODUCERS })
  let worker: WorkerProcess | undefined
  try {
    await pool.query('CREATE TABLE orders (id bigint PRIMARY KEY, status text NOT NULL)')
    if (workers !== 'none') worker = await startWorkerProcess(setting, { handler: WORKER_HANDLER[workers] })
    const transaction = async (seq: number) => {
      const client = await pool.connect()
      await client.query('BEGIN')
      await client.query('INSERT INTO orders VALUES ($1, $2)', [seq, 'paid'])
      await contender.enqueueIn!(client, pushOf(seq))
      await client.query('COMMIT')
      client.release()
    }
    await warmUp(PRODUCERS, transaction)
    return await produce(bench, PRODUCERS, 1, transaction)
  } finally {
    await worker?.stop()
    await pool.end()
  }
}

// Takes ten seconds or so: a Node process takes two to get up to speed.
const SINGLES: Size = { jobs: 20_000, patience: 60 }
const MANY: Size = { jobs: 500_000, patience: 60 }
const GLANCE: Size = { jobs: 1_000, patience: 20 }
const TRANSACTIONS: Size = { jobs: 50_000, patience: 60 }

export const enqueueCases: readonly Case[] = [
  {
    name: 'enqueue-1',
    title: 'one producer, one by one',
    unit: 'jobs/s',
    entrants: standard([LOCKSTEP, ...POSTGRES_PEERS, ...REDIS_PEERS]),
    full: SINGLES,
    quick: GLANCE,
    run: (bench) => oneByOne(bench, 1),
  },
  {
    name: 'enqueue-10',
    title: '10 producers, one by one',
    unit: 'jobs/s',
    entrants: standard([LOCKSTEP, ...POSTGRES_PEERS, ...REDIS_PEERS]),
    full: { jobs: 50_000, patience: 60 },
    quick: { jobs: 3_000, patience: 20 },
    run: (bench) => oneByOne(bench, 10),
  },
  {
    name: 'enqueue-bulk',
    title: 'bulk enqueue of 1,000',
    unit: 'jobs/s',
    entrants: standard([LOCKSTEP, ...POSTGRES_PEERS, ...REDIS_PEERS]),
    full: MANY,
    quick: { jobs: 30_000, patience: 20 },
    run: (bench) => inBulk(bench, () => 'job'),
  },
  {
    name: 'enqueue-merge',
    title: 'bulk of 1,000 merging into 1,000 hot ids',
    unit: 'jobs/s',
    ordering: 'per key',
    entrants: standard([LOCKSTEP]),
    full: MANY,
    quick: { jobs: 30_000, patience: 20 },
    run: merging,
  },
  ...(['none', 'waiting', 'busy'] as const).map(
    (workers): Case => ({
      name: `enqueue-tx-${workers}`,
      title: `32 producers with a domain write, workers ${workers}`,
      unit: 'jobs/s',
      entrants: standard(
        workers === 'none' ? [LOCKSTEP, BARE, 'graphile-worker', 'pg-boss'] : [LOCKSTEP, BARE],
      ),
      full: TRANSACTIONS,
      quick: { jobs: 3_000, patience: 20 },
      run: (bench) => inTransactions(bench, workers),
    }),
  ),
]

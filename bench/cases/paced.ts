import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type Bench, type Case, type Figures, SETTLE } from '../case.ts'
import { LOCKSTEP, NOTIFIED, standard } from '../entrants.ts'
import { Latencies } from '../measure/latencies.ts'
import { pace } from '../measure/pace.ts'
import { startWorkerProcess } from '../worker-process.ts'

/** s of pushes that do not count, in which sessions open and make their plans. */
const WARM_UP = 2
const JOINING_RATE = 200
/** ms */
const CHANGE_EVERY = 3_000
/** Most transactions open at a time: more than the average at any rate. */
const TRANSACTIONS = 64

type Push = (seq: number, latencies: Latencies) => Promise<unknown>

/** ms from when a latency begins until a handler of this process starts, at this many pushes a second. */
async function paced(
  { contender, size }: Bench,
  rate: number,
  push: Push,
  latencies = new Latencies(size.jobs),
): Promise<Figures> {
  await contender.work(latencies)
  await sleep(SETTLE)
  await pace(rate, { from: -rate * WARM_UP, to: size.jobs }, (seq) => push(seq, latencies))
  await latencies.finish.within(size.patience * 1000)
  return latencies.figures()
}

/** Measured from the call that enqueues. */
export function single(bench: Bench, rate: number, latencies?: Latencies): Promise<Figures> {
  const push: Push = (seq, latencies) => {
    latencies.begins(seq)
    return bench.contender.enqueue([{ key: 'job', seq }])
  }
  return paced(bench, rate, push, latencies)
}

/**
 * A pool of an application that has run for a while. Sessions that open or end by the dozen take the others' time, of
 * whichever contender.
 */
async function openPool(connectionString: string): Promise<pg.Pool> {
  const pool = new pg.Pool({ connectionString, max: TRANSACTIONS, idleTimeoutMillis: 0 })
  const clients = await Promise.all(Array.from({ length: TRANSACTIONS }, () => pool.connect()))
  for (const client of clients) client.release()
  return pool
}

/** Measured from when COMMIT is sent: the handler may start before it is answered. */
async function early(bench: Bench, rate: number, longest: number): Promise<Figures> {
  const pool = await openPool(bench.setting.connectionString)
  return paced(bench, rate, async (seq, latencies) => {
    const client = await pool.connect()
    await client.query('BEGIN')
    await bench.contender.enqueueIn!(client, { key: 'job', seq })
    await sleep(Math.random() * longest)
    latencies.begins(seq)
    await client.query('COMMIT')
    client.release()
  })
}

/** Pushes while a second worker process comes and goes. */
async function joining(bench: Bench): Promise<Figures> {
  const latencies = new Latencies(bench.size.jobs)
  const over = new AbortController()
  const guest = comeAndGo(bench, latencies, over.signal)
  const figures = await single(bench, JOINING_RATE, latencies)
  over.abort()
  await guest
  return figures
}

async function comeAndGo({ setting }: Bench, latencies: Latencies, over: AbortSignal): Promise<void> {
  const pause = (ms: number) => sleep(ms, undefined, { signal: over }).catch(() => {})
  await pause(SETTLE + WARM_UP * 1000)
  while (!over.aborted) {
    const onStart = (seq: number, at: number) => latencies.started(seq, at)
    const worker = await startWorkerProcess(setting, { handler: 0, onStart })
    await pause(CHANGE_EVERY)
    await worker.stop()
    await pause(CHANGE_EVERY)
  }
}

const FULL_SECONDS = 20
const QUICK_SECONDS = 4

const singles = [100, 800, 2_000].map(
  (rate): Case => ({
    name: `single-${rate}`,
    title: `${rate.toLocaleString('en')} single pushes a second`,
    unit: 'ms',
    connections: 20,
    entrants: NOTIFIED,
    full: { jobs: rate * FULL_SECONDS, patience: 20 },
    quick: { jobs: rate * QUICK_SECONDS, patience: 5 },
    inQuick: false,
    run: (bench) => single(bench, rate),
  }),
)

const earlies = (
  [
    [20, 500],
    [100, 200],
    [1_000, 50],
  ] as const
).map(
  ([longest, rate]): Case => ({
    name: `early-${longest}`,
    title: `${rate} pushes a second, each in a transaction open for up to ${longest.toLocaleString('en')} ms more`,
    unit: 'ms',
    entrants: NOTIFIED.filter(({ name }) => name !== 'bullmq'),
    full: { jobs: rate * FULL_SECONDS, patience: 20 },
    quick: { jobs: rate * QUICK_SECONDS, patience: 5 },
    inQuick: longest === 100,
    run: (bench) => early(bench, rate, longest),
  }),
)

const join: Case = {
  name: 'joining',
  title: `${JOINING_RATE} single pushes a second while a second process joins and leaves every 3 s`,
  unit: 'ms',
  connections: 20,
  entrants: standard([LOCKSTEP]),
  full: { jobs: JOINING_RATE * 30, patience: 20 },
  quick: { jobs: JOINING_RATE * 6, patience: 5 },
  inQuick: false,
  run: joining,
}

export const pacedCases: readonly Case[] = [...singles, ...earlies, join]

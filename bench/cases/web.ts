import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { defineQueue, Lockstep, type Worker } from 'pg-lockstep'
import { lockstepWeb } from 'pg-lockstep/web'
import type { Bench, Case, Figures } from '../case.ts'
import { LOCKSTEP, standard } from '../entrants.ts'
import { cpuOf, parentOf } from '../measure/cpu.ts'
import { median, percentile } from '../measure/percentile.ts'
import { fill, settle } from './work.ts'

const QUEUE = '/queues/updates'
const PAGES: Readonly<Record<string, string>> = {
  overview: '/',
  queue: QUEUE,
  waiting: `${QUEUE}/jobs/waiting`,
  'waiting, the latest first': `${QUEUE}/jobs/waiting?direction=desc`,
  'waiting, by id': `${QUEUE}/jobs/waiting?sort=id`,
  'waiting, ids that begin alike': `${QUEUE}/jobs/waiting?id=job:77*&sort=id`,
  'waiting, the most failures first': `${QUEUE}/jobs/waiting?sort=retryCount&direction=desc`,
  'waiting, the fewest failures first': `${QUEUE}/jobs/waiting?sort=retryCount`,
  retrying: `${QUEUE}/jobs/retrying`,
  'retrying, the most failures first': `${QUEUE}/jobs/retrying?sort=retryCount&direction=desc`,
  working: `${QUEUE}/jobs/working`,
  dead: `${QUEUE}/dead`,
  job: `${QUEUE}/job/job:7`,
  processes: '/processes',
  audit: '/audit',
}
const TIMES = 20
const DEAD = 200_000
const LATER = 60_000_000

/** So many waiting, of which one in fifty has failed before, and a fifth as many dead. */
async function fillAll({ contender, size, pool }: Bench, lockstep: Lockstep): Promise<void> {
  const due = Date.now() + LATER
  const dead = Math.min(DEAD, size.jobs / 5)
  await fill(contender, dead, (seq) => ({ key: 'dead', seq, due }))
  for await (const _ of lockstep.kill(defineQueue('updates', {}), {})) {
    // How far it is doesn't matter.
  }
  await fill(contender, size.jobs, (seq) => ({ key: 'job', seq, due: due + seq }))
  await pool.query(
    `UPDATE lockstep.jobs SET retry_count = hashtext(id) % 7 + 6, error = 'Error: it failed' WHERE hashtext(id) % 50 = 0`,
  )
  await settle(pool)
}

const WORKING = 50

/** A worker that keeps so many jobs in work. */
async function startWorkingOn(lockstep: Lockstep, jobs: number): Promise<Worker> {
  let begun = 0
  const busy = defineQueue('updates', {
    async perform(_, { signal }) {
      begun += 1
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
    },
  })
  await lockstep.enqueue(
    busy,
    Array.from({ length: jobs }, (_, seq) => ({ id: `busy:${seq}`, payload: { key: 'busy', seq } })),
  )
  const worker = lockstep.createWorker({ queues: [busy], slots: jobs, shutdownTimeout: 0 })
  await worker.start()
  while (begun < jobs) await sleep(5)
  return worker
}

interface OpenPage {
  readonly origin: string
  close(): Promise<void>
}

async function openPage(lockstep: Lockstep): Promise<OpenPage> {
  const server = createServer(lockstepWeb(lockstep, { access: 'open' }).node).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  }
}

/** Returns the ms until all of it has come. */
async function visit(url: string): Promise<number> {
  const startedAt = performance.now()
  const answer = await fetch(url)
  const text = await answer.text()
  if (answer.status !== 200) throw new Error(`${url}: ${answer.status} ${text}`)
  return performance.now() - startedAt
}

/** The slowest page's ms, p50 from the second request on; and, as p99, the slowest of all requests. */
async function pages(bench: Bench): Promise<Figures> {
  const lockstep = new Lockstep({ connectionString: bench.setting.connectionString })
  await fillAll(bench, lockstep)
  const worker = await startWorkingOn(lockstep, WORKING)
  const page = await openPage(lockstep)
  const medians: number[] = []
  const all: number[] = []
  for (const [name, path] of Object.entries(PAGES)) {
    const first = await visit(page.origin + path)
    const times: number[] = []
    while (times.length < TIMES) times.push(await visit(page.origin + path))
    console.error(`  ${name}: ${median(times).toFixed(1)} ms, the first time ${first.toFixed(1)}`)
    medians.push(median(times))
    all.push(first, ...times)
  }
  await page.close()
  await worker.stop()
  return { value: Math.max(...medians), p95: percentile(all, 95), p99: Math.max(...all) }
}

const WATCHERS = 10

/** ms a second of the server's CPU while ten pages ask for the figures of all queues each second. */
async function asking(bench: Bench): Promise<Figures> {
  const lockstep = new Lockstep({ connectionString: bench.setting.connectionString })
  await fillAll(bench, lockstep)
  const page = await openPage(lockstep)
  const server = await serverOf(bench.setting.connectionString)
  const rest = await cpuWithin(server, bench.size.seconds!)
  const until = performance.now() + bench.size.seconds! * 1000
  const watch = async () => {
    while (performance.now() < until) {
      await visit(`${page.origin}/api/v1/stats`)
      await sleep(1000)
    }
  }
  const [used] = await Promise.all([
    cpuWithin(server, bench.size.seconds!),
    ...Array.from({ length: WATCHERS }, watch),
  ])
  await page.close()
  return { value: used - rest }
}

async function serverOf(connectionString: string): Promise<number> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid')
  const postmaster = await parentOf(rows[0].pid)
  await client.end()
  if (postmaster === undefined) throw new Error('the server must run on this machine')
  return postmaster
}

/** ms a second */
async function cpuWithin(pid: number, seconds: number): Promise<number> {
  const before = await cpuOf(pid)
  await sleep(seconds * 1000)
  return ((await cpuOf(pid))! - before!) / seconds
}

const COMMON = { unit: 'ms', entrants: standard([LOCKSTEP]), inQuick: false } as const

export const webCases: readonly Case[] = [
  {
    ...COMMON,
    name: 'pages',
    title: 'the slowest page of the web page, with a million waiting',
    full: { jobs: 1_000_000, patience: 0 },
    quick: { jobs: 100_000, patience: 0 },
    run: pages,
  },
  {
    ...COMMON,
    name: 'pages-asking',
    title: 'the server’s CPU a second while ten pages ask for figures, with a million waiting',
    full: { jobs: 1_000_000, seconds: 120, patience: 0 },
    quick: { jobs: 100_000, seconds: 30, patience: 0 },
    run: asking,
  },
]

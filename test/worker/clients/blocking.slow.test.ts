import { once } from 'node:events'
import { expect, test } from 'vitest'
import { Lockstep, type Worker } from '../../../src/index.ts'
import { block, eventually, next, useWorkers } from '../../support/worker-environment.ts'
import { WorkerProcesses } from '../../support/worker-processes.ts'
import { KINDS } from './kinds.ts'
import { Tokens } from './tokens.ts'

const env = useWorkers()
const LEASE = 1_000

function after(ms: number): () => boolean {
  let until: number | undefined
  return () => {
    until ??= performance.now() + ms
    return performance.now() > until
  }
}

/** A worker whose first handler blocks the event loop for longer than the lease, and how often it has performed. */
async function blocked(kind: string, isOver = after(3 * LEASE)) {
  const tokens = await Tokens.create(env)
  env.later(() => tokens.drop())
  const { pool, ...others } = KINDS[kind]!(tokens)
  pool!.on('error', () => {})
  env.later(() => pool!.end())
  const runs: string[] = []
  const queue = env.queue({
    shards: 1,
    perform() {
      runs.push('run')
      if (runs.length === 1) while (!isOver()) block(10)
    },
  })
  const lockstep = new Lockstep({ pool: pool!, ...others, logger: env.logger })
  const worker = env.create({ queues: [queue], lease: LEASE }, lockstep)
  env.later(() => worker.stop())
  await worker.start()
  return { runs, queue, worker, tokens }
}

function losses(worker: Worker): { count: number } {
  const lost = { count: 0 }
  worker.on('leaseLost', () => {
    lost.count += 1
  })
  return lost
}

test.each(['a password function', 'a module that creates clients'])(
  'P1: with %s, a handler that blocks the event loop for longer than the lease keeps it',
  async (kind) => {
    const { runs, queue, worker } = await blocked(kind)
    const lost = losses(worker)
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(queue, { id: 'a' })
    await completed
    expect(runs).toHaveLength(1)
    expect(lost.count).toBe(0)
  },
  30_000,
)

/** Sent at once: the event loop is blocked while the server runs it. */
function atServer(body: string): void {
  const done = env.sql(`DO $$ BEGIN LOOP PERFORM pg_sleep(0.05); ${body} EXIT WHEN FOUND; END LOOP; END $$`)
  env.later(() => done)
}

test('P6: with a function that creates clients, it loses it, others take over, and its outcome is refused', async () => {
  const processes = new WorkerProcesses()
  env.later(() => processes.end())
  const { connectionString } = env
  const tooLong = after(30_000)
  const isOver = () => processes.runs.some(({ returned }) => returned) || tooLong()
  const { runs, queue, worker } = await blocked('a function that creates clients', isOver)
  const other = { connectionString, queue: { name: queue.name, shards: 1 }, worker: { lease: LEASE } }
  await processes.start(other)
  const [lost, refused] = [
    next(worker, 'leaseLost', undefined, 45_000),
    next(worker, 'refused', undefined, 45_000),
  ]
  await env.lockstep.enqueue(queue, { id: 'a' })
  await Promise.all([lost, refused])
  expect(runs).toHaveLength(1)
  expect(processes.runs.map(({ id }) => id)).toEqual(['a'])
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
}, 90_000)

test('with a password function, a lease whose connection breaks while the event loop is blocked is lost', async () => {
  const { queue, worker, tokens } = await blocked('a password function')
  const lost = next(worker, 'leaseLost')
  atServer(`PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE usename = '${tokens.role}' AND EXISTS (SELECT FROM lockstep.jobs WHERE claimed_by IS NOT NULL);`)
  await env.lockstep.enqueue(queue, { id: 'a' })
  await lost
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
}, 30_000)

test('P1: a process that may be killed is, before the lease ends that its blocked event loop can’t renew', async () => {
  const processes = new WorkerProcesses()
  env.later(() => processes.end())
  const queue = env.queue({ perform() {} })
  const { connectionString } = env
  const module = new URL('./blocking-process.ts', import.meta.url)
  const { child } = await processes.start({ connectionString, queue: { name: queue.name } }, module)
  const exited = once(child, 'exit')
  await env.lockstep.enqueue(queue, { id: 'a' })
  expect(await exited).toEqual([null, 'SIGKILL'])
  const [row] = await env.sql<{ left: boolean }>(
    'SELECT expires_at > clock_timestamp() AS left FROM lockstep.processes WHERE pid = $1',
    [child.pid],
  )
  expect(row).toEqual({ left: true })
}, 60_000)

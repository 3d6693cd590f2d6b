import { existsSync, readFileSync } from 'node:fs'
import { parse } from 'csv-parse/sync'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { defineQueue, type NewJob } from '../../src/index.ts'
import { inversions, overlaps } from '../support/checker.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'
import { type WorkerProcess, WorkerProcesses } from '../support/worker-processes.ts'

// Processes start slowly if others use the same processor.
vi.setConfig({ testTimeout: 120_000 })

const FILE = new URL('../../../shared/data/receipt.csv', import.meta.url)
const CASES = 1434
const PRODUCERS = 8
const LEASE = 2_000

interface Event {
  readonly time: number
  readonly row: Readonly<Record<string, string>>
}

const env = useWorkers()
let processes: WorkerProcesses | undefined

afterEach(async () => {
  await processes?.end()
  await env.sql('DROP TABLE IF EXISTS applied')
})

/** A real event log. Each case is the id of a job, its events are the payloads, and their time is the score. */
describe.skipIf(!existsSync(FILE))(`the event log ${FILE.pathname.split('/').slice(-3).join('/')}`, () => {
  test('P1 P2 P3: 3 processes apply the events of each case in time order, each exactly once', async () => {
    const { jobs, name } = await prepare()
    await produce(name, jobs)
    await startThree(name)
    await expectAllApplied(name, jobs)
    expect(await casesOutOfOrder()).toEqual([])
    expectOneAtATime()
    expect(processes!.runs.length).toBe(CASES)
  })

  test('P1 P2 P3: so they do when one of them is killed on the way', async () => {
    const { jobs, name } = await prepare()
    await produce(name, jobs)
    const [victim] = await startThree(name)
    await kill(victim!, jobs.length)
    await expectAllApplied(name, jobs)
    expect(await casesOutOfOrder()).toEqual([])
    expectOneAtATime()
  })

  test('P1 P2 P3: events that come shuffled while they work are applied once, in order in each batch', async () => {
    const { jobs, name } = await prepare()
    const [victim] = await startThree(name)
    const produced = produce(name, jobs)
    await kill(victim!, jobs.length)
    await produced
    await expectAllApplied(name, jobs)
    expectOneAtATime()
    const runs = processes!.runs
    const withinARun = runs.flatMap((run) => inversions([run], (event) => (event as Event).time))
    expect(withinARun).toEqual([])
  })
})

let queues = 0

async function prepare() {
  processes = new WorkerProcesses()
  queues += 1
  await env.sql('CREATE TABLE applied (position bigserial, id text, payload jsonb)')
  return { jobs: shuffled(readEvents()), name: `receipt ${queues}` }
}

function readEvents(): NewJob[] {
  const rows: Record<string, string>[] = parse(readFileSync(FILE), { columns: true })
  return rows.map((row) => {
    const time = Date.parse(row['time:timestamp']!)
    return { id: row['case:concept:name']!, payload: { time, row }, score: time }
  })
}

function shuffled<T>(items: T[]): T[] {
  for (let last = items.length - 1; last > 0; last -= 1) {
    const other = Math.floor(Math.random() * (last + 1))
    ;[items[last], items[other]] = [items[other]!, items[last]!]
  }
  return items
}

async function produce(name: string, jobs: readonly NewJob[]): Promise<void> {
  const queue = defineQueue(name)
  const chunks = Array.from({ length: Math.ceil(jobs.length / 60) }, (_, i) =>
    jobs.slice(i * 60, i * 60 + 60),
  )
  const producer = async () => {
    for (let chunk = chunks.pop(); chunk; chunk = chunks.pop()) await env.lockstep.enqueue(queue, chunk)
  }
  await Promise.all(Array.from({ length: PRODUCERS }, producer))
}

function startThree(name: string): Promise<WorkerProcess[]> {
  const options = {
    connectionString: env.connectionString,
    queue: { name, shards: 5, batchSize: 4, transactional: true },
    worker: { slots: 3, lease: LEASE },
    work: 12,
    apply: true,
  }
  return Promise.all([1, 2, 3].map(() => processes!.start(options)))
}

/** Kills a worker in the middle of its work, with much left to do. */
async function kill(victim: WorkerProcess, events: number): Promise<void> {
  await victim.heard('completed')
  await victim.kill()
  expect(await countApplied()).toBeLessThan(events)
}

async function countApplied(): Promise<number> {
  const [row] = await env.sql<{ count: number }>('SELECT count(*)::int AS count FROM applied')
  return row!.count
}

async function expectAllApplied(name: string, jobs: readonly NewJob[]): Promise<void> {
  const queue = defineQueue(name)
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  const applied = await env.sql<{ id: string; payload: unknown }>('SELECT id, payload FROM applied')
  const sorted = (all: readonly { id: string | number | bigint; payload?: unknown }[]) =>
    all.map(({ id, payload }) => `${id} ${(payload as Event).row['concept:instance']}`).sort()
  expect(sorted(applied)).toEqual(sorted(jobs))
}

function casesOutOfOrder(): Promise<unknown[]> {
  return env.sql(`
    SELECT id FROM (
      SELECT id, (payload->>'time')::bigint < lag((payload->>'time')::bigint) OVER (PARTITION BY id ORDER BY position) AS late
      FROM applied
    ) a WHERE late`)
}

function expectOneAtATime(): void {
  const runs = processes!.runs
  expect(runs.length).toBeGreaterThanOrEqual(CASES)
  expect(new Set(runs.map(({ process }) => process)).size).toBe(3)
  expect(overlaps(runs, processes!)).toEqual([])
}

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { defineQueue, type Queue } from '../../src/index.ts'
import { SERIAL } from '../../src/postgres/serial.ts'
import { VERSION } from '../../src/version.ts'
import { lockstep as command } from '../cli/command.ts'
import { inversions, lost, overlaps, repeats, shrunkFences } from '../support/checker.ts'
import { createDatabase } from '../support/database.ts'
import { NextRelease } from '../support/next-release.ts'
import { Producer } from '../support/producer.ts'
import { eventually, WorkerEnvironment } from '../support/worker-environment.ts'
import { type WorkerProcess, WorkerProcesses } from '../support/worker-processes.ts'

// Processes start slowly if others use the same processor.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 })

/** So many that each shard has some. */
const IDS = 40
const DEADLINE = 60_000
const ORDER = (payload: unknown) => payload as number

let env: WorkerEnvironment
let processes: WorkerProcesses

beforeEach(async () => {
  env = new WorkerEnvironment()
  await env.open(await createDatabase())
  processes = new WorkerProcesses()
})
afterEach(async () => {
  await processes.end()
  await env.tidy()
  await env.close()
})

const queue = defineQueue('rolled', { shards: 6 })

function start(release?: NextRelease, options: { gated?: readonly string[] } = {}): Promise<WorkerProcess> {
  return processes.start(
    {
      connectionString: env.connectionString,
      queue: { name: queue.name, shards: 6, batchSize: 3 },
      worker: { slots: 3, rebalanceInterval: 100 },
      work: 8,
      ...options,
    },
    release?.url('test/support/worker-process.ts'),
  )
}

async function migrateWith(release: NextRelease): Promise<unknown> {
  const variables = { DATABASE_URL: env.connectionString }
  const { code, stdout, stderr } = await command(['migrate', '--json'], {
    env: variables,
    main: release.url('src/cli/main.ts'),
  })
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout)
}

async function accountFor(producer: Producer, worked: Queue): Promise<void> {
  await producer.end()
  await eventually(async () => expect(await env.jobs(worked)).toBe(0), DEADLINE)
  expect(lost(processes.runs, producer.pushed)).toEqual([])
  expect(repeats(processes.runs)).toEqual([])
  expect(overlaps(processes.runs, processes)).toEqual([])
  expect(inversions(processes.runs, ORDER)).toEqual([])
  expect(shrunkFences(processes.runs)).toEqual([])
}

describe('a next release that serves this one', () => {
  let next: NextRelease

  beforeAll(() => {
    next = new NextRelease({ servesThis: true })
  })
  afterAll(() => next?.remove())

  test('P1 P2 P3: is rolled out beside it under load: nothing is lost, nothing is done twice', async () => {
    const old = await Promise.all([start(), start()])
    const producer = new Producer(env, queue, IDS)
    await processes.moreRunsOf(old[0]!)

    expect(await migrateWith(next)).toMatchObject({ applied: ['9001_next'], defined: true, raised: [] })
    for (const worker of old) await processes.moreRunsOf(worker)

    const first = await start(next)
    await Promise.all([processes.moreRunsOf(first), processes.moreRunsOf(old[0]!)])
    // Like a process of this release that starts again meanwhile, and calls migrate() then.
    expect(await env.lockstep.migrate()).toEqual({
      applied: [],
      defined: false,
      newer: { serial: SERIAL + 1, version: VERSION },
      raised: [],
    })
    await old[0]!.stop()
    const again = await start()
    await processes.moreRunsOf(again)
    expect(await env.sql('SELECT DISTINCT noted FROM lockstep.process_list')).toEqual([{ noted: true }])

    await Promise.all([old[1]!.stop(), again.stop()])
    await processes.moreRunsOf(first)
    await accountFor(producer, queue)
  })
})

describe('a next release that does not serve this one', () => {
  let next: NextRelease

  beforeAll(() => {
    next = new NextRelease({ servesThis: false })
  })
  afterAll(() => next?.remove())

  test('P1 P2 P3: its migration stops workers of this one, with their rounds stored', async () => {
    const old = await start(undefined, { gated: ['in work'] })
    const producer = new Producer(env, queue, IDS)
    await processes.moreRunsOf(old)
    await env.lockstep.enqueue(queue, { id: 'in work', payload: 1, score: 1 })
    await old.heard<{ ids: string[] }>('started', ({ ids }) => ids.includes('in work'))

    await migrateWith(next)
    expect(await old.heard('outdated')).toEqual({ serial: SERIAL + 1, version: VERSION })
    old.open()
    await old.ended()
    expect(old.child.exitCode).toBe(0)
    expect(processes.runs.find(({ id }) => id === 'in work')).toMatchObject({ accepted: true })
    expect(processes.runs.filter(({ accepted }) => !accepted)).toEqual([])

    const refused = { code: 'LOCKSTEP_SCHEMA_NEW', message: expect.stringContaining('upgrade it') }
    await expect(env.lockstep.migrate()).rejects.toMatchObject(refused)
    await expect(
      env.create({ queues: [defineQueue('other', { perform() {} })] }).start(),
    ).rejects.toMatchObject(refused)
    await processes.moreRunsOf(await start(next))
    await accountFor(producer, queue)
  })
})

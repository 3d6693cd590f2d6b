import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { defineQueue, type Worker } from '../../src/index.ts'
import { openStore, type StoreEnvironment, type TestQueue, until } from '../support/store-environment.ts'

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
  testQueue = await env.queue()
})
beforeEach(async () => {
  await env.query('TRUNCATE lockstep.jobs, lockstep.payloads, lockstep.processes')
  await env.lockstep.migrate()
})
afterAll(() => env?.close())

/**
 * Sequences, with a function that stores a number of theirs in a row; `margin` is how far above it the sequence is set.
 */
const SEQUENCES: readonly [
  name: string,
  what: string,
  row: (number: number) => Promise<unknown>,
  margin: number,
][] = [
  ['"lockstep".fences', 'a job', (n) => job('fence', n), 1_000_000],
  ['"lockstep".fences', 'a payload', (n) => payload('fence', n), 1_000_000],
  ['"lockstep".pushes', 'a payload', (n) => payload('seq', n), 1_000_000],
  ['lockstep.queues_queue_id_seq', 'a queue', (n) => queue(n), 1_000],
  ['lockstep.queues_queue_id_seq', 'a job of a queue that is gone', (n) => job('queue_id', n), 1_000],
  ['lockstep.processes_process_id_seq', 'a process', (n) => process(n), 1_000],
  [
    'lockstep.processes_process_id_seq',
    'a claim of a process that is gone',
    (n) => job('claimed_by', n),
    1_000,
  ],
]

const job = async (column: string, value: number) => {
  await testQueue.push({ id: 'a' })
  await env.query(`UPDATE lockstep.jobs SET ${column} = $1`, [value])
}
const payload = async (column: string, value: number) => {
  await testQueue.push({ id: 'a' }, { id: 'a', payload: 'in a row of its own' })
  await env.query(`UPDATE lockstep.payloads SET ${column} = $1`, [value])
}
const queue = (id: number) =>
  env.query(
    `INSERT INTO lockstep.queues (queue_id, name, shards) OVERRIDING SYSTEM VALUE VALUES ($1, $2, 1)`,
    [id, `restored ${id}`],
  )
const process = (id: number) =>
  env.query(
    `INSERT INTO lockstep.processes (process_id, host, pid, version, slots, queues, expires_at) OVERRIDING SYSTEM VALUE
     VALUES ($1, 'gone', 1, '0', 1, '{}', now())`,
    [id],
  )

async function standsAt(sequence: string): Promise<number> {
  const [row] = await env.query<{ last: number }>(`SELECT last_value AS last FROM ${sequence}`)
  return row!.last
}

function worker(): Worker {
  return env.lockstep.createWorker({ queues: [defineQueue('worked', { perform() {} })] })
}

describe.each(SEQUENCES)('P3 the sequence %s behind %s', (sequence, _, put, margin) => {
  test('stops a worker’s start, which names the statement that cures it, and a migration raises it', async () => {
    const before = await standsAt(sequence)
    const number = before + 500
    await put(number)
    const drawn = await standsAt(sequence)
    const to = number + margin
    const refusal = await worker()
      .start()
      .catch((error) => error)
    expect(refusal).toMatchObject({
      code: 'LOCKSTEP_SEQUENCE_BEHIND',
      message: expect.stringContaining(`${sequence} stands at ${drawn}, below ${number}`),
    })
    const cure = `SELECT setval('${sequence}', ${to});`
    expect(refusal.message).toContain(`Run \`lockstep migrate\`, or ${cure}`)
    expect(await env.query('SELECT FROM lockstep.processes WHERE host <> $1', ['gone'])).toEqual([])

    expect((await env.lockstep.migrate()).raised).toEqual([{ sequence, from: drawn, to }])
    expect(await standsAt(sequence)).toBe(to)
    expect((await env.lockstep.migrate()).raised).toEqual([])
    const started = worker()
    await started.start()
    await started.stop()

    await env.query(`SELECT setval('${sequence}', $1)`, [drawn])
    await env.query(cure)
    const again = worker()
    await again.start()
    await again.stop()
  })
})

test('P3: jobs that were restored without the sequences are handed over with all their payloads', async () => {
  await testQueue.push(...Array.from({ length: 500 }, (_, n) => ({ id: `id ${n}`, payload: n })))
  await env.query(`SELECT setval('lockstep.fences', 1, false), setval('lockstep.pushes', 1, false)`)
  const handed: unknown[] = []
  const queue = defineQueue(testQueue.queue.name, {
    perform: (batch) => void handed.push(...[...batch.values()].flat()),
  })
  await expect(env.lockstep.createWorker({ queues: [queue] }).start()).rejects.toMatchObject({
    code: 'LOCKSTEP_SEQUENCE_BEHIND',
  })
  await env.lockstep.migrate()
  const started = env.lockstep.createWorker({ queues: [queue] })
  await started.start()
  await until(() => expect(handed).toHaveLength(500))
  await started.stop()
})

describe('P3 a sequence that was never drawn from', () => {
  const SEQUENCE = 'lockstep.queues_queue_id_seq'
  let fresh: StoreEnvironment
  beforeEach(async () => {
    fresh = await openStore()
    return () => fresh.close()
  })
  const serve = async () => {
    const queue = defineQueue('restored', { shards: 1, perform() {} })
    const started = fresh.lockstep.createWorker({ queues: [queue] })
    await started.start()
    await started.stop()
  }

  test('is raised where the restored row has the number it stands at', async () => {
    await fresh.query(
      `INSERT INTO lockstep.queues (queue_id, name, shards) OVERRIDING SYSTEM VALUE VALUES (1, 'restored', 1)`,
    )
    await expect(serve()).rejects.toMatchObject({
      code: 'LOCKSTEP_SEQUENCE_BEHIND',
      message: expect.stringContaining(`${SEQUENCE} stands at 0, below 1`),
    })
    expect((await fresh.lockstep.migrate()).raised).toEqual([{ sequence: SEQUENCE, from: 0, to: 1_001 }])
    expect((await fresh.lockstep.migrate()).raised).toEqual([])
    await serve()
    await fresh.lockstep.enqueue(defineQueue('next'), { id: 'a' })
    expect(await fresh.query('SELECT queue_id AS id FROM lockstep.queues ORDER BY 1')).toEqual([
      { id: 1 },
      { id: 1_002 },
    ])
  })

  test('is never set back from where it was set by hand', async () => {
    await fresh.query(
      `INSERT INTO lockstep.queues (queue_id, name, shards) OVERRIDING SYSTEM VALUE VALUES (1, 'restored', 1)`,
    )
    await fresh.query(`SELECT setval('${SEQUENCE}', 50000, false)`)
    expect((await fresh.lockstep.migrate()).raised).toEqual([{ sequence: SEQUENCE, from: 0, to: 50_000 }])
    await serve()
  })
})

test('P3: one row of a large table that no sample may show is found where every row is read', async () => {
  await env.query(
    `INSERT INTO lockstep.jobs (queue_id, shard, perform_in, id, fence)
     SELECT $1, 0, now(), 'order ' || n, 1 FROM generate_series(1, 40000) AS n`,
    [testQueue.queueId],
  )
  const number = (await standsAt('lockstep.processes_process_id_seq')) + 10
  await env.query(`UPDATE lockstep.jobs SET claimed_by = $1 WHERE id = 'order 20000'`, [number])
  expect((await env.lockstep.migrate({ everyRow: true })).raised).toMatchObject([
    { sequence: 'lockstep.processes_process_id_seq', to: number + 1_000 },
  ])
})

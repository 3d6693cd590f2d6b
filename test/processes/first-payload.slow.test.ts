import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { createDatabase, execute } from '../support/database.ts'
import { MIGRATIONS_SINCE, PreviousBuild, previousDefinitions } from '../support/previous-build.ts'
import { eventually, WorkerEnvironment } from '../support/worker-environment.ts'
import { WorkerProcesses } from '../support/worker-processes.ts'

vi.setConfig({ testTimeout: 1_800_000, hookTimeout: 600_000 })

const [WAITING, DEAD, SHARDS] = [1_000_000, 10_000, 16]
const DEADLINE = 1_200_000
const queue = defineQueue('filled', { shards: SHARDS })

let env: WorkerEnvironment
let processes: WorkerProcesses
let previous: PreviousBuild

beforeAll(async () => {
  previous = new PreviousBuild()
  const database = await createDatabase()
  await execute(database.connectionString, previousDefinitions())
  env = new WorkerEnvironment()
  await env.open(database, true)
  processes = new WorkerProcesses()
  await env.sql('CREATE TABLE applied (id text, payload jsonb)')
  await env.sql('SELECT lockstep.create_queue($1, $2)', [queue.name, SHARDS])
  await env.sql(
    `INSERT INTO lockstep.morgue (died_at, score, queue_id, shard, job_id, digest, payload)
     SELECT now(), 0, 1, 0, 'dead-' || n, lockstep.digest_of(to_jsonb(n)), to_jsonb(n) FROM generate_series(1, $1::int) n`,
    [DEAD],
  )
  for (let from = 0; from < WAITING; from += 1_000) await push('id', from, 1_000)
})
afterAll(async () => {
  await processes?.end()
  await env?.tidy()
  await env?.close()
  previous?.remove()
})

/** Pushes payloads `from`, `from` + 1, … to an id each, as any language would. */
async function push(kind: string, from: number, count: number): Promise<void> {
  await env.sql(
    `SELECT lockstep.enqueue_many($1, array_agg($2 || '-' || n), array_agg(to_jsonb(n)), array_agg(n::float8),
       array_agg(NULL::timestamptz), array_agg(0::smallint)) FROM generate_series($3::int, $3::int + $4::int - 1) n`,
    [queue.name, kind, from, count],
  )
}

const start = (build?: PreviousBuild) =>
  processes.start(
    {
      connectionString: env.connectionString,
      queue: { name: queue.name, shards: SHARDS, batchSize: 100, transactional: true },
      worker: { slots: 5 },
      apply: true,
    },
    build?.url('test/support/worker-process.ts'),
  )

test('P3: a million jobs of two rows, and those in work and dead, are brought up under load: every payload is accounted for', async () => {
  const old = await start(previous)
  let [pushed, ending] = [0, false]
  const producing = (async () => {
    for (; !ending; pushed += 100) await push('meanwhile', pushed, 100)
  })()
  await eventually(
    async () => expect((await env.sql('SELECT FROM applied LIMIT 1000')).length).toBe(1000),
    60_000,
  )
  const report = await env.lockstep.migrate()
  expect(report).toEqual({ applied: MIGRATIONS_SINCE, defined: true, raised: [] })
  await start()
  await eventually(async () => expect(pushed).toBeGreaterThan(20_000), DEADLINE)
  ending = true
  await producing
  await old.stop()
  let moved = 0
  for await (const { done } of env.lockstep.requeue(queue, {})) moved = done
  expect(moved).toBe(DEAD)
  await eventually(async () => expect(await env.jobs(queue)).toBe(0), DEADLINE)
  const [row] = await env.sql(
    `SELECT count(*)::int AS all, count(DISTINCT id)::int AS ids, (SELECT count(*)::int FROM lockstep.payloads) AS left,
       (SELECT count(*)::int FROM lockstep.morgue) AS dead FROM applied`,
  )
  const all = WAITING + DEAD + pushed
  expect(row).toEqual({ all, ids: all, left: 0, dead: 0 })
})

import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { migrationSql } from '../../src/postgres/migrate.ts'
import { inversions, lost, overlaps, repeats, shrunkFences } from '../support/checker.ts'
import { createDatabase, execute } from '../support/database.ts'
import { MIGRATIONS_SINCE, PreviousBuild, previousDefinitions } from '../support/previous-build.ts'
import { Producer } from '../support/producer.ts'
import { eventually, WorkerEnvironment } from '../support/worker-environment.ts'
import { type WorkerProcess, WorkerProcesses } from '../support/worker-processes.ts'

// Processes start slowly if others use the same processor.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 })

const DEADLINE = 120_000
const queue = defineQueue('grown', { shards: 6 })

let previous: PreviousBuild
let env: WorkerEnvironment
let processes: WorkerProcesses

beforeAll(() => {
  previous = new PreviousBuild()
})
afterAll(() => previous?.remove())
beforeEach(async () => {
  const database = await createDatabase()
  await execute(database.connectionString, previousDefinitions())
  env = new WorkerEnvironment()
  await env.open(database, true)
  processes = new WorkerProcesses()
})
afterEach(async () => {
  await processes.end()
  await env.tidy()
  await env.close()
})

function start(build?: PreviousBuild): Promise<WorkerProcess> {
  return processes.start(
    {
      connectionString: env.connectionString,
      queue: { name: queue.name, shards: 6, batchSize: 3 },
      worker: { slots: 3, rebalanceInterval: 100 },
      work: 8,
    },
    build?.url('test/support/worker-process.ts'),
  )
}

const carried = async () =>
  (await env.sql<{ id: string }>('SELECT id FROM lockstep.jobs WHERE payload IS NOT NULL')).map(
    ({ id }) => id,
  )

test('P1 P2 P3: a build whose jobs took two rows goes on beside this one: nothing is lost, nothing is done twice', async () => {
  const old = await Promise.all([start(previous), start(previous)])
  const producer = new Producer(env, queue, 40)
  await processes.moreRunsOf(old[0]!, DEADLINE)

  const report = await env.lockstep.migrate()
  expect(report).toEqual({ applied: MIGRATIONS_SINCE, defined: true, raised: [] })
  await eventually(async () => expect(await carried()).not.toEqual([]))
  for (const worker of old) await processes.moreRunsOf(worker, DEADLINE)

  const first = await start()
  await Promise.all([processes.moreRunsOf(first, DEADLINE), processes.moreRunsOf(old[0]!, DEADLINE)])
  await old[0]!.stop()
  // Going back needs no steps.
  const again = await start(previous)
  await processes.moreRunsOf(again, DEADLINE)
  await Promise.all([old[1]!.stop(), again.stop()])
  await processes.moreRunsOf(first, DEADLINE)

  await producer.end()
  await eventually(async () => expect(await env.jobs(queue)).toBe(0), DEADLINE)
  expect(lost(processes.runs, producer.pushed)).toEqual([])
  expect(repeats(processes.runs)).toEqual([])
  expect(overlaps(processes.runs, processes)).toEqual([])
  expect(inversions(processes.runs, (payload) => payload as number)).toEqual([])
  expect(shrunkFences(processes.runs)).toEqual([])
  expect(await env.sql('SELECT FROM lockstep.payloads')).toEqual([])
})

test('P3: a claim that began before the migration gets what is pushed after it', async () => {
  const GATE = 4_711
  const [{ text }] = (await env.sql(`SELECT pg_get_functiondef('lockstep.claim'::regproc) AS text`)) as [
    { text: string },
  ]
  await env.sql(text.replace(/^BEGIN$/m, `BEGIN PERFORM pg_advisory_xact_lock(${GATE});`))
  const [{ id: queueId }] = (await env.sql('SELECT lockstep.create_queue($1, 1) AS id', [queue.name])) as [
    { id: number },
  ]
  const [{ process_id: processId }] = (await env.sql(
    `INSERT INTO lockstep.processes (host, pid, version, slots, queues, expires_at)
     VALUES ('here', 1, '0', 1, '{}', now() + interval '1 hour') RETURNING process_id`,
  )) as [{ process_id: number }]
  const [keeper, session] = [await env.session(), await env.session()]
  await keeper.query('SELECT pg_advisory_lock($1)', [GATE])
  const claim = session.query(
    `SELECT id, payload FROM lockstep.claim($1, ARRAY[$2::int], '{0}', '{0}', '{10}', '{NULL}', '{4194304}', '{NULL}', '{""}', 4194304)
     WHERE fence IS NOT NULL`,
    [processId, queueId],
  )
  await eventually(async () =>
    expect(await env.sql("SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")).toHaveLength(1),
  )

  expect(await env.lockstep.migrate()).toMatchObject({ applied: MIGRATIONS_SINCE, carries: false })
  await env.lockstep.enqueue(queue, { id: 'a', payload: 'v', performIn: 0 })
  expect(await carried()).toEqual([])
  await keeper.query('SELECT pg_advisory_unlock($1)', [GATE])
  expect((await claim).rows).toEqual([{ id: 'a', payload: '"v"' }])

  expect(await env.lockstep.migrate()).toEqual({ applied: [], defined: false, raised: [] })
  await env.lockstep.enqueue(queue, { id: 'b', payload: 'v' })
  expect(await carried()).toEqual(['b'])
})

test('P3: a transaction that idles during the migration may call the functions of before, so it is waited for', async () => {
  await env.sql('SELECT lockstep.create_queue($1, 1)', [queue.name])
  const session = await env.session()
  const push = (id: string) => session.query('SELECT lockstep.enqueue($1, $2, \'"v"\')', [queue.name, id])
  await push('a')
  await session.query('BEGIN')
  await session.query('SELECT 1')
  expect(await env.lockstep.migrate()).toMatchObject({ carries: false })
  await env.lockstep.enqueue(queue, { id: 'b', payload: 'v' })
  expect(await carried()).toEqual([])
  await push('b')
  await session.query('COMMIT')
  expect(await env.lockstep.migrate()).toEqual({ applied: [], defined: false, raised: [] })
  await push('c')
  expect(await carried()).toEqual(['c'])
})

test('several processes may migrate at once', async () => {
  const reports = await Promise.all([1, 2, 3].map(() => env.lockstep.migrate()))
  expect(reports.filter(({ applied }) => applied.length > 0)).toHaveLength(1)
  expect(reports.filter(({ carries }) => carries === false)).toEqual([])
  const ids = ['a', 'b', 'c', 'd', 'e']
  await Promise.all(ids.map((id) => env.lockstep.enqueue(queue, { id, payload: 'v' })))
  expect(await carried()).toHaveLength(ids.length)
})

test('P3: a push during which jobs begin to carry their payloads is stored, one way or the other', async () => {
  expect(await env.lockstep.migrate()).toMatchObject({ applied: MIGRATIONS_SINCE })
  await env.sql('SELECT lockstep.create_queue($1, 1)', [queue.name])
  const define = (carries: boolean) =>
    `CREATE OR REPLACE FUNCTION lockstep.carries() RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN ${carries}`
  await env.sql(
    `CREATE FUNCTION begin_to_carry() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${define(true)}; RETURN NULL; END $$`,
  )
  await env.sql(
    'CREATE TRIGGER begins AFTER INSERT ON lockstep.jobs FOR EACH STATEMENT EXECUTE FUNCTION begin_to_carry()',
  )
  const ids = ['a', 'b', 'c']
  await env.sql(define(false))
  await env.lockstep.enqueue(
    queue,
    ids.map((id) => ({ id, payload: id })),
  )
  await env.sql(define(false))
  await env.lockstep.enqueue(queue, { id: 'd', payload: 'd' })
  expect(await carried()).toEqual([])
  expect(await env.sql('SELECT payload FROM lockstep.payloads ORDER BY job_id')).toEqual(
    [...ids, 'd'].map((payload) => ({ payload })),
  )
})

test('the printed SQL leaves an existing schema without such rows until `migrate` finds that it may have them', async () => {
  const printed = await migrationSql('lockstep')
  const [tables, functions] = printed.split(/(?=select set_config\('lockstep.search_path')/)
  const migration = tables!.slice(tables!.indexOf('alter table "lockstep"."jobs" add column "has_payloads"'))
  await execute(env.connectionString, `BEGIN; ${migration} ${functions} COMMIT`)
  await env.lockstep.enqueue(queue, { id: 'a', payload: 'v' })
  expect(await carried()).toEqual([])
  expect(await env.lockstep.migrate()).toEqual({ applied: [], defined: false, raised: [] })
  await env.lockstep.enqueue(queue, { id: 'b', payload: 'v' })
  expect(await carried()).toEqual(['b'])

  await execute(env.connectionString, await migrationSql('printed'))
  expect(await env.sql('SELECT printed.carries() AS carries')).toEqual([{ carries: true }])
})

import { expect, test } from 'vitest'
import { renewAndReport } from '../../src/store/process-report.ts'
import { reportOf } from '../../src/worker/report.ts'
import type { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import type { Shard } from '../../src/worker/schedule/shard.ts'
import { block, eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

/** Rows of what renewals and reports did, in order. */
async function watchRows(): Promise<() => Promise<{ what: string; xact: string }[]>> {
  await env.sql(`CREATE TABLE renewals (seq bigserial, what text, xact text);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO renewals (what, xact) VALUES (TG_TABLE_NAME, pg_current_xact_id()); RETURN NULL; END $$;
    CREATE TRIGGER noted AFTER UPDATE ON lockstep.processes FOR EACH ROW EXECUTE FUNCTION note();
    CREATE TRIGGER noted AFTER INSERT OR UPDATE ON lockstep.process_reports FOR EACH ROW EXECUTE FUNCTION note()`)
  env.later(() =>
    env.sql(`DROP TRIGGER noted ON lockstep.processes; DROP TRIGGER noted ON lockstep.process_reports;
      DROP FUNCTION note; DROP TABLE renewals`),
  )
  return () => env.sql('SELECT what, xact FROM renewals ORDER BY seq')
}

test('a worker tells its shards, its memory and what its slots do, until it ends', async () => {
  const gate = new Gate()
  const queue = env.queue({
    shards: 3,
    batchSize: 7,
    timeout: 60_000,
    retryIn: () => 1,
    perform: () => gate.opened,
  })
  const idle = env.queue({ shards: 2, perform() {} })
  const worker = env.create({ queues: [queue, idle], lease: 1_000, shutdownTimeout: 60_000 })
  // 99 characters, and half of the next one would be left.
  const long = `${'x'.repeat(99)}😀 and more`
  await env.lockstep.enqueue(queue, { id: long })
  const begun = next(worker, 'started')
  await worker.start()
  const { shard } = await begun
  const row = await eventually(async () => {
    const [found] = await env.lockstep.processes()
    expect(found).toMatchObject({ doing: [{ queue: queue.name }], shards: [{ count: 3 }, { count: 2 }] })
    return found!
  })
  expect(row.shards).toEqual([
    {
      queue: queue.name,
      count: 3,
      shards: [0, 1, 2],
      policy: { batchSize: 7, timeout: 60_000, retryIn: true },
    },
    { queue: idle.name, count: 2, shards: [0, 1], policy: { retryIn: true } },
  ])
  expect(row.doing).toEqual([
    {
      slot: expect.any(Number),
      queue: queue.name,
      shard,
      jobs: 1,
      ids: [`${'x'.repeat(99)}…`],
      since: expect.any(Date),
    },
  ])
  expect(row.memory).toBeGreaterThan(20_000_000)
  expect(row.eventLoopDelay).toBeGreaterThanOrEqual(0)
  expect(row.reportedAt!.getTime()).toBeGreaterThanOrEqual(row.startedAt.getTime())
  expect(row.request).toBeNull()
  const [seen] = await env.sql('SELECT * FROM lockstep.process_list')
  expect(seen).toMatchObject({
    process_id: worker.processId,
    doing: [{ queue: queue.name, ids: [`${'x'.repeat(99)}…`] }],
  })

  gate.open()
  await eventually(async () => expect((await env.lockstep.processes())[0]!.doing).toEqual([]))
  await worker.stop()
  expect(await env.sql('SELECT FROM lockstep.process_reports')).toEqual([])
})

test('each report comes with a renewal of the lease, in one transaction', async () => {
  const rows = await watchRows()
  await env.work({ queues: [env.queue({ perform() {} })], lease: 1_000 })
  const seen = await eventually(async () => {
    const all = await rows()
    expect(all.filter(({ what }) => what === 'process_reports').length).toBeGreaterThan(3)
    return all
  })
  const renewed = new Set(seen.filter(({ what }) => what === 'processes').map(({ xact }) => xact))
  const reports = seen.filter(({ what }) => what === 'process_reports')
  expect(reports.filter(({ xact }) => !renewed.has(xact))).toEqual([])
})

test('P1: while the event loop is blocked, the lease is renewed, and the report stays old', async () => {
  const rows = await watchRows()
  const worker = await env.work({ queues: [env.queue({ perform() {} })], lease: 1_000 })
  await eventually(async () => expect((await env.lockstep.processes())[0]!.reportedAt).not.toBeNull())
  block(2_000)
  expect(worker.health().leaseLeft).toBeGreaterThan(0)
  const longest = (await rows()).reduce(
    ({ run, most }, { what }) => {
      const next = what === 'processes' ? run + 1 : 0
      return { run: next, most: Math.max(most, next) }
    },
    { run: 0, most: 0 },
  ).most
  expect(longest).toBeGreaterThanOrEqual(3)
  await eventually(async () =>
    expect((await env.lockstep.processes())[0]!.eventLoopDelay).toBeGreaterThanOrEqual(1_500),
  )
})

test('P1: a report that can’t be stored costs no lease', async () => {
  await env.sql('ALTER TABLE lockstep.process_reports ADD CONSTRAINT refused CHECK (memory < 0) NOT VALID')
  env.later(() => env.sql('ALTER TABLE lockstep.process_reports DROP CONSTRAINT refused'))
  const queue = env.queue({ perform() {} })
  const worker = await env.work({ queues: [queue], lease: 1_000 })
  const { processId } = worker
  let lost = 0
  worker.on('leaseLost', () => {
    lost += 1
  })
  expect(String(await next(worker, 'failure'))).toMatch(/refused/)
  const [{ renewal }] = (await env.sql('SELECT renewal FROM lockstep.processes')) as [{ renewal: string }]
  await eventually(async () => {
    const [now] = await env.sql('SELECT renewal FROM lockstep.processes')
    expect(now!.renewal).not.toBe(renewal)
  })
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await completed
  expect({ lost, processId: worker.processId }).toEqual({ lost: 0, processId })
  const told = env.warnings.filter(({ message }) => message === 'what this process does can’t be stored')
  expect(told).toHaveLength(1)
})

test('P1: a lock on the reports costs no lease', { tags: 'slow', timeout: 30_000 }, async () => {
  const worker = await env.work({ queues: [env.queue({ perform() {} })], lease: 2_000 })
  let lost = 0
  worker.on('leaseLost', () => {
    lost += 1
  })
  const locker = await env.session()
  await locker.query('BEGIN; LOCK TABLE lockstep.process_reports')
  // Each time a session waits with a report, and another one renews the lease without.
  for (let waited = 0; waited < 3; waited += 1) await next(worker, 'failure')
  await locker.query('ROLLBACK')
  await eventually(async () => expect((await env.lockstep.processes()).at(-1)!.reportedAt).not.toBeNull())
  expect(lost).toBe(0)
})

test('P6: a process that others have removed stores no report; those left over go with the next removal', async () => {
  const report = { eventLoopDelay: 1, memory: 2, shards: [], doing: [] }
  const [gone, silent] = await env.sql<{ process_id: number; renewal: string }>(
    `INSERT INTO lockstep.processes (host, pid, version, slots, queues, expires_at)
     VALUES ('a', 1, '0', 1, '{}', now()), ('b', 2, '0', 1, '{}', now()) RETURNING process_id, renewal`,
  )
  const numbers = [gone!.process_id, silent!.process_id]
  expect((await renewAndReport(env.pool, 'lockstep', numbers, 1_000, report)).toSorted()).toEqual(
    numbers.toSorted(),
  )
  // As by a release that knows of no reports.
  await env.sql('DELETE FROM lockstep.processes WHERE process_id = $1', [gone!.process_id])
  expect(await renewAndReport(env.pool, 'lockstep', [gone!.process_id], 1_000, report)).toEqual([])
  await env.sql(
    `SELECT lockstep.remove_silent(array_agg(process_id), array_agg(renewal)) FROM lockstep.processes WHERE process_id = $1`,
    [silent!.process_id],
  )
  expect(await env.sql('SELECT FROM lockstep.process_reports')).toEqual([])
})

test('a report has a limit, however much there is to tell', () => {
  const shards = Array.from({ length: 40 }, (_, place) => {
    const served = { queue: { name: `${place} ${'q'.repeat(250)}` } } as ServedQueue
    return Array.from({ length: 500 }, (_, shard) => ({ served, shard }) as Shard)
  }).flat()
  const slots = Array.from({ length: 1_000 }, (_, slot) => ({
    slot,
    queue: 'ä'.repeat(250),
    shard: 3,
    ids: Array.from({ length: 100 }, () => '😀'.repeat(200)),
    since: new Date(1_700_000_000_000 - slot),
  }))
  const { shards: told, doing } = reportOf(1, shards, slots)
  expect(told.length).toBeGreaterThan(5)
  expect(told[0]).toMatchObject({ count: 500, shards: Array.from({ length: 64 }, (_, shard) => shard) })
  expect(JSON.stringify(told).length).toBeLessThan(8_200)
  // The one that has taken longest comes first.
  expect(doing[0]).toMatchObject({ slot: 999, jobs: 100 })
  expect(doing[0]!.ids).toHaveLength(5)
  const escaped = JSON.stringify(doing).replace(/[^\0-\x7e]/g, '\\uxxxx')
  expect(escaped.length).toBeLessThan(8_200)
})

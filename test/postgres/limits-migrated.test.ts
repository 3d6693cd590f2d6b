import { afterEach, beforeEach, expect, test } from 'vitest'
import { Database } from '../../src/postgres/database.ts'
import { groundStatements, pendingMigrations } from '../../src/postgres/definitions.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { exchange } from '../../src/store/exchange.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { poolOn } from '../support/store-environment.ts'

const MIGRATION = '0009_bounded_limits'

let server: TestDatabase
let database: Database

beforeEach(async () => {
  server = await createDatabase()
  database = new Database(poolOn(server.connectionString), 'lockstep')
  for (const text of groundStatements('lockstep')) await database.query(text)
  for (const { statements } of await pendingMigrations('lockstep', [MIGRATION]))
    for (const text of statements) await database.query(text)
  // Views keep columns from being dropped.
  await database.query(
    `CREATE VIEW lockstep.limited AS
     SELECT q.name AS queue, s.tenant, 'rate'::text AS what, 1 AS most, s.rounds AS used, s.at AS until
     FROM lockstep.queues q JOIN lockstep.starts s USING (queue_id)`,
  )
  await database.query('GRANT SELECT ON lockstep.limited TO PUBLIC')
})
afterEach(async () => {
  await database.pool.end()
  await server.drop()
})

/** A queue with limits and some jobs, as the release before left them. */
async function queue(name: string, limits: object, jobs: number): Promise<number> {
  const [row] = await database.query<{ queue_id: number }>(
    'INSERT INTO lockstep.queues (name, shards, limits) VALUES ($1, 1, $2) RETURNING queue_id',
    [name, limits],
  )
  await database.query(
    `INSERT INTO lockstep.jobs (queue_id, id, shard, lane, perform_in, retry_count, fence, tenant, payload, score)
     SELECT $1, 'id-' || n, 0, 0, now() - interval '1 h', -1, nextval('lockstep.fences'), 't', '1', 1 FROM generate_series(1, $2) n`,
    [row!.queue_id, jobs],
  )
  return row!.queue_id
}

/** How many more jobs a process may claim. */
async function room(queueId: number, processId: number): Promise<number> {
  const key = { queueId, shard: 0, lane: 0 }
  const cursor = { after: null, afterId: '' }
  const wish = { key, cursor, count: 99, maxPayloads: undefined, maxBytes: 1_000_000 }
  const { claims } = await exchange(database, processId, [], [wish])
  return claims[0]!.rounds.length
}

async function register(): Promise<number> {
  const [row] = await database.query<{ process_id: number }>(
    `INSERT INTO lockstep.processes (host, pid, version, slots, queues, lease, expires_at)
     VALUES ('here', 1, '0', 1, '{}', 60000, now() + interval '1 min') RETURNING process_id`,
  )
  return row!.process_id
}

test('R9 what the release before has noted for limits counts on after the upgrade', async () => {
  const processId = await register()
  const held = await queue('held', { concurrency: 5, tenant: { concurrency: 4 } }, 9)
  await database.query(
    `UPDATE lockstep.jobs SET claimed_by = $2 WHERE queue_id = $1 AND id IN ('id-1', 'id-2', 'id-3')`,
    [held, processId],
  )
  await database.query(
    `INSERT INTO lockstep.holds (queue_id, process_id, fence, tenant, job_id)
     SELECT queue_id, claimed_by, fence, tenant, id FROM lockstep.jobs WHERE claimed_by IS NOT NULL
     UNION ALL SELECT $1, 99, 1, 't', 'gone'`,
    [held],
  )
  const rated = await queue(
    'rated',
    { rate: { jobs: 10, per: 60 }, tenant: { rate: { jobs: 7, per: 60 } } },
    9,
  )
  await database.query(
    `INSERT INTO lockstep.starts (queue_id, tenant, at, rounds)
     SELECT $1, t, clock_timestamp() - s * interval '1 s', 2 FROM unnest('{"",t}'::text[]) t, unnest('{90,70,30,10}'::integer[]) s`,
    [rated],
  )
  await database.query(
    `INSERT INTO lockstep.turns (since, seen_at, perform_in, queue_id, process_id, shard, lane, tenant)
     SELECT now(), now(), now(), $1, p, 0, 0, '' FROM generate_series(1, 3) p`,
    [held],
  )
  const untouched = await queue('empty', { concurrency: 3 }, 9)

  expect((await migrate(database)).applied).toEqual([MIGRATION])
  expect(
    await database.query(`SELECT has_table_privilege('public', 'lockstep.limited', 'SELECT') AS granted`),
  ).toEqual([{ granted: true }])
  expect([
    await room(held, processId),
    await room(rated, processId),
    await room(untouched, processId),
  ]).toEqual([1, 3, 3])
  expect([
    await room(held, processId),
    await room(rated, processId),
    await room(untouched, processId),
  ]).toEqual([0, 0, 0])
})

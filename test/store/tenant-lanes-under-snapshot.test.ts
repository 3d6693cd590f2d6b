import type pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { trimTenantLanes } from '../../src/store/tenants.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

/** Tenants that come and go while a snapshot is held. */
const TENANTS = 50_000
/** Buffers that may be read more than at first: deeper indexes, and a row for each lane that says it is free. */
const CONSTANT = 200

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
afterEach(() => env.endSessions())

/** So many tenants have had lanes for an hour. */
const come = ({ queueId }: TestQueue, count: number) =>
  env.query(
    `INSERT INTO lockstep.tenant_lanes (number, given_at, queue_id, lane, tenant)
     SELECT nextval('lockstep.tenants'), clock_timestamp() - interval '2 h', $1, -1 - n % 32, 'old ' || n
     FROM generate_series(1, $2::integer) n`,
    [queueId, count],
  )

/** Buffers that a statement reads, in a session that has run it before. */
async function buffers(session: pg.Client, text: string): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let n = 0; n < 3; n += 1) {
    await session.query('BEGIN')
    const { rows } = await session.query(`EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ${text}`)
    await session.query('ROLLBACK')
    const plan = rows[0]['QUERY PLAN'][0].Plan
    least = Math.min(least, plan['Shared Hit Blocks'] + plan['Shared Read Blocks'])
  }
  return least
}

const lanesOf = async ({ queueId }: TestQueue) => {
  const rows = await env.query<{ lane: number }>(
    'SELECT lane FROM lockstep.tenant_lanes_of(ARRAY[$1::integer]) ORDER BY lane DESC',
    [queueId],
  )
  return rows.map(({ lane }) => lane)
}

const push = ({ queue }: TestQueue, tenant: string) =>
  `SELECT lockstep.enqueue('${queue.name}', 'of ${tenant}'::text, tenant => '${tenant}')`

describe('P7 while an old snapshot is held, after thousands of tenants have come and gone', () => {
  test.each([
    ['where lanes are free', 1],
    ['where all are taken', 400],
  ])('%s, looks and a newcomer’s push read as much as at first', async (_, staying) => {
    const testQueue = await env.queue()
    const read = async () => {
      const stay = `INSERT INTO lockstep.tenant_lanes (number, given_at, queue_id, lane, tenant)
        SELECT nextval('lockstep.tenants'), clock_timestamp(), $1, -1 - n % 32, 'stays ' || n FROM generate_series(1, $2::integer) n`
      await env.query(stay, [testQueue.queueId, staying])
      // The planner takes the table for nearly empty, and a new session plans anew.
      await env.query('ANALYZE lockstep.tenant_lanes')
      const session = await env.session()
      return {
        look: await buffers(session, `SELECT * FROM lockstep.tenant_lanes_of('{${testQueue.queueId}}')`),
        push: await buffers(session, push(testQueue, 'newcomer')),
      }
    }
    const reader = await env.transaction('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await reader.query('SELECT')
    const before = await read()
    for (let n = 0; n < TENANTS; n += 10_000) {
      await come(testQueue, 10_000)
      await trimTenantLanes(env.database, [testQueue.queueId])
    }
    const after = await read()
    expect(after.look).toBeLessThan(before.look + CONSTANT)
    expect(after.push).toBeLessThan(before.push + CONSTANT)
  })
})

describe('P7 while an old snapshot is held, after thousands of jobs of tenants were completed', () => {
  test('a newcomer’s push reads as much as at first, where all lanes are taken', async () => {
    const testQueue = await env.queue({ shards: 2 })
    await testQueue.push(...Array.from({ length: 40 }, (_, n) => ({ id: `${n}`, tenant: `t${n}` })))
    const read = async () => buffers(await env.session(), push(testQueue, 'newcomer'))
    const reader = await env.transaction('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await reader.query('SELECT')
    const before = await read()
    await env.query(
      `INSERT INTO lockstep.jobs (queue_id, shard, lane, id, perform_in)
       SELECT $1, n % 2, -1 - n % 32, 'done ' || n, clock_timestamp() - interval '1 h' FROM generate_series(1, 50000) n`,
      [testQueue.queueId],
    )
    const told = `INSERT INTO lockstep.tenant_waits (told_at, queue_id, waits, tenants)
      SELECT clock_timestamp() - n * interval '2 s', $1, array_fill(60, ARRAY[32]), array_fill('1'::text, ARRAY[32]) FROM generate_series(1, 20000) n`
    await env.query(told, [testQueue.queueId])
    await env.query(`DELETE FROM lockstep.jobs WHERE queue_id = $1 AND id LIKE 'done %'`, [testQueue.queueId])
    await trimTenantLanes(env.database, [testQueue.queueId])
    const left = await env.query('SELECT FROM lockstep.tenant_waits WHERE queue_id = $1', [testQueue.queueId])
    expect(left.length).toBeLessThan(30)
    expect(await read()).toBeLessThan(before + CONSTANT)
  })
})

test('where all lanes are taken, each newcomer of one call reads what a tenant that is known does, and little more', async () => {
  const testQueue = await env.queue()
  await testQueue.push(...Array.from({ length: 400 }, (_, n) => ({ id: `${n}`, tenant: `t${n}` })))
  const newcomers = 1_000
  const pushMany = (prefix: string) =>
    `SELECT lockstep.enqueue_many('${testQueue.queue.name}', ARRAY(SELECT '${prefix}' || n FROM generate_series(1, ${newcomers}) n),
       _tenants => ARRAY(SELECT '${prefix}' || n % 400 || CASE WHEN '${prefix}' = 'new' THEN ' ' || n ELSE '' END FROM generate_series(1, ${newcomers}) n))`
  const session = await env.session()
  const known = await buffers(session, pushMany('t'))
  expect(await buffers(session, pushMany('new'))).toBeLessThan(known + 20 * newcomers)
})

describe('a lane that is given back', () => {
  test('is free, and no worker hears of it, until a tenant gets it again', async () => {
    const testQueue = await env.queue()
    await come(testQueue, 64)
    expect(await lanesOf(testQueue)).toHaveLength(32)
    await trimTenantLanes(env.database, [testQueue.queueId])
    expect(await lanesOf(testQueue)).toEqual([])
    await testQueue.push(...Array.from({ length: 32 }, (_, n) => ({ id: `${n}`, tenant: `t${n}` })))
    expect(await lanesOf(testQueue)).toHaveLength(32)
    const taken = await env.query('SELECT DISTINCT lane FROM lockstep.jobs WHERE queue_id = $1', [
      testQueue.queueId,
    ])
    expect(taken).toHaveLength(32)
  })

  test('leaves one row, however often it is given back, and none once its queue is gone', async () => {
    const testQueue = await env.queue()
    const rows = () =>
      env.query('SELECT tenant FROM lockstep.tenant_lanes WHERE queue_id = $1', [testQueue.queueId])
    for (let n = 0; n < 3; n += 1) {
      await come(testQueue, 100)
      await trimTenantLanes(env.database, [testQueue.queueId])
      expect(await rows()).toEqual(Array(32).fill({ tenant: '' }))
    }
    await env.query('DELETE FROM lockstep.queues WHERE queue_id = $1', [testQueue.queueId])
    await trimTenantLanes(env.database, [testQueue.queueId])
    expect(await rows()).toEqual([])
  })
})

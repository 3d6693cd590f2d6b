import { afterAll, beforeAll, expect, test } from 'vitest'
import { claimLeased } from '../../src/store/leases.ts'
import { trimTenants } from '../../src/store/tenants.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

test('every table has a primary key, so that a database may be replicated as a whole', async () => {
  const rows = await env.query<{ name: string }>(
    `SELECT c.relname AS name FROM pg_class c
     WHERE c.relnamespace = 'lockstep'::regnamespace AND c.relkind IN ('r', 'p')
       AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)`,
  )
  expect(rows).toEqual([])
})

test('what changes rows is not refused where all tables are published', async () => {
  const tables =
    'lockstep.jobs, lockstep.leases, lockstep.tenant_pushes, lockstep.tenant_lanes, lockstep.tenant_waits'
  await env.query(`CREATE PUBLICATION everything FOR TABLE ${tables}`)
  const ruled = await env.queue({ fairness: { window: 60, rules: [{ over: 9, per: 60, lane: 1 }] } })
  const plain = await env.queue()
  await ruled.push({ id: 'a', tenant: 't' })
  await plain.push({ id: 'a', tenant: 't' })
  const key = { queueId: ruled.queueId, shard: 0, lane: 0 }
  const { maxPayloads, maxBytes } = ruled.queue
  const wish = {
    key,
    cursor: { after: null, afterId: '' },
    count: 1,
    maxPayloads,
    maxBytes,
    maxRetryCount: 3,
  }
  const [claim] = await claimLeased(env.database, 60_000, [wish], undefined, undefined)
  expect(claim!.rounds).toHaveLength(1)
  await env.query('UPDATE lockstep.leases SET ends_at = clock_timestamp()')
  expect(await env.query('SELECT leases FROM lockstep.end_leases()')).toEqual([{ leases: 1 }])
  await env.lockstep.delete(plain.queue, {})
  await env.query(`UPDATE lockstep.tenant_pushes SET pushed_at = pushed_at - interval '2 min'`)
  await env.query(`UPDATE lockstep.tenant_lanes SET given_at = given_at - interval '25 h'`)
  await env.query(
    `INSERT INTO lockstep.tenant_waits (told_at, queue_id, waits, tenants) VALUES (clock_timestamp() - interval '2 min', 1, '{}', '{}')`,
  )
  expect(await trimTenants(env.database)).toBe(2)
  expect(await env.query('SELECT FROM lockstep.tenant_waits')).toEqual([])
})

import { afterAll, beforeAll, expect, test } from 'vitest'
import { codeIn } from '../support/docs-code.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

let env: StoreEnvironment
beforeAll(async () => {
  env = await openStore()
  await env.query(`
    CREATE TABLE orders (id bigint, status text, version bigint);
    INSERT INTO orders VALUES (18, 'new', 5), (19, 'new', 6), (20, 'sent', 7)`)
})
afterAll(() => env?.close())

const SECTIONS = ['Before the first push', 'One job', 'Many jobs', 'What waits']

test('R1 the SQL of the docs runs as it stands, and makes the jobs that it shows', async () => {
  for (const section of SECTIONS)
    for (const block of codeIn('docs/sql.md', section, 'sql')) await env.query(block)
  expect(await env.query('SELECT name, shards FROM lockstep.queues')).toEqual([
    { name: 'orders', shards: 16 },
  ])
  const waiting = await env.query<{ id: string; pushed: unknown[] }>(
    `SELECT id, jsonb_path_query_array(to_jsonb(payloads), '$[*].payload.status') AS pushed FROM lockstep.waiting ORDER BY id`,
  )
  expect(waiting.map(({ id, pushed }) => [id, ...pushed])).toEqual([
    ['17', 'paid'],
    ['18', 'new'],
    ['19', 'new'],
    ['order-1', 'paid'],
    ['order-2', 'new'],
  ])
})

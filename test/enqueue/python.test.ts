import { execFile, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { codeIn } from '../support/docs-code.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

const run = promisify(execFile)
const PYTHONS = ['python3', '/usr/bin/python3']
const python = PYTHONS.find((one) => spawnSync(one, ['-c', 'import psycopg']).status === 0)

let env: StoreEnvironment
beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

test('P4 the Python of the docs pushes in a transaction, and tells errors apart', async ({ skip }) => {
  if (python === undefined) skip('no python3 here has psycopg 3: pip install "psycopg[binary]"')
  await env.query(`
    CREATE TABLE orders (id bigint, status text); INSERT INTO orders VALUES (17, 'new');
    SELECT lockstep.create_queue('orders')`)
  const [script] = codeIn('docs/sql.md', 'In Python', 'python') as [string]
  const perform = async () =>
    (
      await run(python!, ['-c', script], { env: { ...process.env, DATABASE_URL: env.connectionString } })
    ).stdout
      .trim()
      .split('\n')
  const errors = [
    'no such queue: queue "ordesr" does not exist',
    'a bad job: jobs[0].id is required and must not be empty',
  ]
  expect(await perform()).toEqual(['a new job', ...errors])
  const [job] = await env.query<{ payloads: unknown; hours: number }>(
    `SELECT payloads, extract(epoch FROM perform_in - now())::float8 / 3600 AS hours FROM lockstep.waiting WHERE id = '17'`,
  )
  expect(job!.payloads).toMatchObject([{ payload: { status: 'paid' }, score: 2 }])
  expect(job!.hours).toBeGreaterThan(23.9)
  expect(job!.hours).toBeLessThan(24.1)
  expect(await env.query('SELECT status FROM orders')).toEqual([{ status: 'paid' }])
  expect(await env.query('SELECT id FROM lockstep.jobs ORDER BY id')).toEqual([{ id: '17' }, { id: '18' }])
  expect(await perform()).toEqual(['joined a job', ...errors])

  await env.query('DROP TABLE orders; DELETE FROM lockstep.jobs')
  await expect(perform()).rejects.toThrow('relation "orders" does not exist')
  expect(await env.query('SELECT FROM lockstep.jobs')).toEqual([])
})

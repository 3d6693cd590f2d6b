import { readFileSync } from 'node:fs'
import { PrismaPg } from '@prisma/adapter-pg'
import pg from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { PrismaClient } from '../adapters/prisma/client/client.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

let env: StoreEnvironment
beforeAll(async () => {
  env = await openStore()
  await env.query(`SELECT lockstep.create_queue('orders')`)
})
afterAll(() => env?.close())
beforeEach(() => env.query('DELETE FROM lockstep.jobs'))

/** The call that a row of the table in docs/sql.md shows. */
function callOf(driver: string): string {
  const row = new RegExp(`^\\| ${driver} \\| \`+ ?(.*?) ?\`+ \\|$`, 'm')
  return row.exec(readFileSync('docs/sql.md', 'utf8'))![1]!
}

/** Runs it with `on` under the name that it has there, and resolves to its rows. */
async function runWith(driver: string, name: string, on: unknown): Promise<unknown> {
  const call = new Function(name, `return (async () => ${callOf(driver)})()`)
  return call(on)
}

const RESULT = [[{ enqueue: true }], [{ enqueue: false }]]
const stored = () => env.query('SELECT id, payload FROM lockstep.jobs')
const STORED = [{ id: '17', payload: { status: 'paid' } }]

test('R1 pg pushes as the docs say', async () => {
  const client = new pg.Client(env.connectionString)
  await client.connect()
  const push = async () => ((await runWith('`pg`', 'client', client)) as pg.QueryResult).rows
  const results = [await push(), await push()]
  await client.end()
  expect([results, await stored()]).toEqual([RESULT, STORED])
})

test('R1 P4 postgres.js pushes as the docs say', async () => {
  const sql = postgres(env.connectionString, { onnotice() {} })
  const push = (tx: unknown) => runWith('postgres.js', 'tx', tx).then((rows) => [...(rows as unknown[])])
  const results = await sql.begin(async (tx) => [await push(tx), await push(tx)])
  await sql.end()
  expect([results, await stored()]).toEqual([RESULT, STORED])
})

test('R1 P4 Prisma’s $queryRaw pushes as the docs say, and reads the result', async () => {
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: env.connectionString }) })
  const push = (tx: unknown) => runWith('Prisma', 'tx', tx)
  const results = await prisma.$transaction(async (tx) => [await push(tx), await push(tx)])
  const refused = prisma.$transaction(async (tx) => {
    await push(tx)
    await tx.$queryRaw`SELECT lockstep.enqueue('ordesr', 1)`
  })
  await expect(refused).rejects.toThrow('LK001')
  await prisma.$disconnect()
  expect([results, await stored()]).toEqual([RESULT, STORED])
})

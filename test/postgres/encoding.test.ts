import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { defineQueue, Lockstep, type QueueOptions } from '../../src/index.ts'
import { migrationSql } from '../../src/postgres/migrate.ts'
import { DEFAULT_ROLES, rolesSql } from '../../src/postgres/roles.ts'
import { runHere } from '../cli/in-process.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

const SILENT = { debug() {}, info() {}, warn() {}, error() {} }

test('what a migration sends is ASCII: every encoding has that', async () => {
  const folders = ['../../sql/', '../../migrations/'].map((folder) => new URL(folder, import.meta.url))
  const files = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((file) => file.isFile())
      .map((file) => `${file.parentPath}/${file.name}`),
  )
  expect(files.length).toBeGreaterThan(50)
  const beyond = (text: string) => text.split('\n').filter((line) => /\P{ASCII}/u.test(line))
  const lines = files.flatMap((file) => beyond(readFileSync(file, 'utf8')).map((line) => `${file}: ${line}`))
  expect(lines).toEqual([])
  expect(beyond(await migrationSql('lockstep'))).toEqual([])
  expect(beyond(await rolesSql('lockstep', DEFAULT_ROLES))).toEqual([])
})

describe('a database of another encoding', () => {
  let server: TestDatabase
  let pool: pg.Pool
  let lockstep: Lockstep
  let queues = 0

  beforeAll(async () => {
    server = await createDatabase({ options: `ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'` })
    pool = new pg.Pool({ connectionString: server.connectionString, max: 2 })
    lockstep = new Lockstep({ connectionString: server.connectionString, logger: SILENT })
    await lockstep.migrate()
  })
  afterAll(async () => {
    await lockstep?.close()
    await pool?.end()
    await server?.drop()
  })

  test('a claim with an id that it lacks fails alone, not those that are settled at once with it', async () => {
    const queue = defineQueue('settled at once')
    await lockstep.enqueue(queue, [{ id: 'a' }, { id: 'b' }])
    const consumer = lockstep.createConsumer()
    const jobs = await consumer.claim({ queues: queue, count: 2 })
    const wrong = { queue: queue.name, id: '\u{1f600}', fence: 1 }
    const refused = { status: 'rejected', reason: { code: 'LOCKSTEP_ENCODING' } }
    const settled = await Promise.allSettled([...jobs, wrong].map((claim) => consumer.extend(claim)))
    expect(settled).toMatchObject([{ value: true }, { value: true }, refused])
    const done = await Promise.allSettled([wrong, ...jobs].map((claim) => consumer.complete(claim)))
    expect(done).toMatchObject([refused, { value: true }, { value: true }])
    await consumer.stop()
  })

  const define = (options: QueueOptions<unknown>) => defineQueue(`caf\u00e9 ${++queues}`, options)

  async function counts() {
    const { rows } = await pool.query(`SELECT (SELECT count(*) FROM lockstep.jobs)::int AS jobs,
      (SELECT count(*) FROM lockstep.payloads)::int AS payloads`)
    return rows[0]
  }

  test('is pushed to and processed, with what it can hold', async () => {
    const handed: [string, readonly unknown[]][] = []
    const queue = define({ perform: async (batch) => void handed.push(...batch) })
    const jobs = ['a', '\u00e9'].map((id) => ({ id, payload: { [id]: `${id} \u00ff` } }))
    await lockstep.enqueue(queue, jobs)
    const client = await pool.connect()
    await client.query('BEGIN')
    await lockstep.enqueue(queue, { id: '\u00fc', payload: '\u00df' }, { tx: client })
    await client.query('COMMIT')
    client.release()
    const worker = lockstep.createWorker({ queues: [queue] })
    await worker.start()
    await vi.waitFor(async () => expect(await counts()).toEqual({ jobs: 0, payloads: 0 }), 15_000)
    await worker.stop()
    expect(Object.fromEntries(handed)).toEqual({
      a: [{ a: 'a \u00ff' }],
      '\u00e9': [{ '\u00e9': '\u00e9 \u00ff' }],
      '\u00fc': ['\u00df'],
    })
  })

  test.each([
    ['an id', { id: '\u20ac' }],
    ['a payload', { id: 'a', payload: { text: ['\u{1f600}'] } }],
    ['a key of one', { id: 'a', payload: { '\u2019': 1 } }],
  ])('%s that it can not hold is refused, and nothing is stored', async (_, job) => {
    const queue = define({ perform: async () => {} })
    const refusal = {
      code: 'LOCKSTEP_ENCODING',
      message: expect.stringMatching(/in encoding "LATIN1"; the encoding of this database lacks .* UTF8$/),
    }
    await expect(lockstep.enqueue(queue, job)).rejects.toMatchObject(refusal)
    await expect(lockstep.enqueue(queue, [{ id: 'good' }, job])).rejects.toMatchObject(refusal)
    const client = await pool.connect()
    await client.query('BEGIN')
    await expect(lockstep.enqueue(queue, [{ id: 'good' }, job], { tx: client })).rejects.toMatchObject(
      refusal,
    )
    await client.query('COMMIT')
    client.release()
    expect(await counts()).toEqual({ jobs: 0, payloads: 0 })
  })

  test('a row of a file, too, as an escape in its JSON', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'lockstep-encoding-'))
    const path = join(folder, 'rows.ndjson')
    await writeFile(path, '{"id":"a"}\n{"id":"b","n":1.0,"text":"\\u20ac"}\n')
    const env = { DATABASE_URL: server.connectionString }
    const { code, stderr } = await runHere(['enqueue', 'rows', path, '--id', 'id'], env)
    await rm(folder, { recursive: true })
    expect(stderr).toMatch(
      /the encoding of this database lacks a character of the text: .*\nNothing was stored/,
    )
    expect(code).toBe(1)
    expect(await counts()).toEqual({ jobs: 0, payloads: 0 })
  })

  const thrown = new Error('no \u20ac in the caf\u00e9')
  test.each([
    [
      'a handler',
      (options: QueueOptions<unknown>) =>
        define({
          ...options,
          perform: async () => {
            throw thrown
          },
        }),
    ],
    [
      'one in a transaction that goes on',
      ({ maxRetryCount }: QueueOptions<unknown>) =>
        defineQueue(`transactional ${++queues}`, {
          maxRetryCount,
          transactional: true,
          perform: async (batch, context) => {
            for (const id of batch.keys()) context.fail(id, thrown)
          },
        }),
    ],
  ])('the error of %s is stored, whatever it says', async (_, queueWith) => {
    const queue = queueWith({ maxRetryCount: 0 })
    await lockstep.enqueue(queue, { id: 'a' })
    const worker = lockstep.createWorker({ queues: [queue] })
    await worker.start()
    await vi.waitFor(async () => expect((await lockstep.findDead(queue)).items).toHaveLength(1), 15_000)
    await worker.stop()
    const { items } = await lockstep.findDead(queue)
    expect(items[0]!.error).toMatch(/^Error: no \\u\{20ac\} in the caf\\u\{e9\}\n/)
  })
})

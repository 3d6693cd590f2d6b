import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { SERIAL } from '../../src/postgres/serial.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { Command, fixture } from './command.ts'
import { runHere } from './in-process.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let database: TestDatabase
let env: NodeJS.ProcessEnv
let client: pg.Client
let library: Lockstep
const started: Command[] = []

beforeAll(async () => {
  database = await createDatabase()
  env = { DATABASE_URL: database.connectionString }
  client = new pg.Client(database.connectionString)
  await client.connect()
  library = new Lockstep({ connectionString: database.connectionString })
  await library.migrate()
})
afterEach(async () => {
  for (const { child } of started.splice(0)) child.kill('SIGKILL')
  await client.query('DELETE FROM lockstep.release')
  await library.migrate()
})
afterAll(async () => {
  await library.close()
  await client.end()
  await database.drop()
})

function work(...args: string[]): Command {
  const command = new Command(['work', '-r', fixture('several.ts'), ...args], { env })
  started.push(command)
  return command
}

/** Does what the migration of a later release does. */
async function migratedByLater(oldestServed = SERIAL + 1): Promise<void> {
  await client.query("UPDATE lockstep.release SET serial = $1, oldest_served = $2, version = '9.9.9'", [
    SERIAL + 1,
    oldestServed,
  ])
  await client.query("SELECT pg_notify('lockstep', 'rebalance')")
}

const named = (event: string) => (line: { event?: string }) => line.event === event

describe('work that a later release no longer serves', () => {
  it('ends with 75, so that the new release takes its place, and does not start again', async () => {
    const command = work()
    await command.line(named('started'))
    await migratedByLater()
    expect(await command.ended).toMatchObject({ code: 75 })
    expect(await command.line(named('stopped'))).toBeDefined()
    expect(await command.line(({ msg }) => /later release has migrated.*stopping/.test(msg))).toMatchObject({
      version: '9.9.9',
    })
    const again = await work().ended
    expect(again.stderr).toMatch(/release 9\.9\.9 .*upgrade it/)
    expect(again.code).toBe(75)
  })

  it('ends all its processes with --processes, and starts no other', async () => {
    const command = work('--processes', '2')
    for (const index of [0, 1]) await command.line((line) => line.event === 'child' && line.index === index)
    await migratedByLater()
    expect(await command.ended).toMatchObject({ code: 75 })
    expect(command.lines.filter(({ msg }) => /starting another/.test(msg))).toEqual([])
  })
})

describe('migrate', () => {
  it('says that a later release has been there which serves this one, and what it raised', async () => {
    await migratedByLater(SERIAL)
    const left = await runHere(['migrate'], env)
    expect(left).toEqual({
      code: 0,
      stdout: 'schema "lockstep": unchanged: release 9.9.9 has migrated it, and serves this one too\n',
      stderr: '',
    })
    await migratedByLater()
    expect(await runHere(['migrate'], env)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching('upgrade it'),
    })

    await client.query('DELETE FROM lockstep.release')
    await library.migrate()
    await library.enqueue(defineQueue('behind'), [{ id: 'a' }, { id: 'a', payload: 'in a row of its own' }])
    await client.query("SELECT setval('lockstep.pushes', 1, false); UPDATE lockstep.payloads SET seq = 10")
    expect(await runHere(['migrate'], env)).toMatchObject({
      code: 0,
      stdout: [
        'schema "lockstep": already up to date',
        'sequence "lockstep".pushes was behind its rows: raised from 0 to 1000010',
        '',
      ].join('\n'),
    })
  })
})

describe('delete-queue', () => {
  it('deletes what is empty, refuses what is not, and deletes that too when told', async () => {
    await library.enqueue(defineQueue('orders'), [{ id: 'a' }, { id: 'b' }])
    const refused = await runHere(['delete-queue', 'orders'], env)
    expect(refused).toEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(
        /^lockstep: queue "orders" is not empty: it has 2 waiting jobs .*--with-jobs\)\n$/,
      ),
    })
    expect(await runHere(['delete-queue', 'orders', '--with-jobs'], env)).toEqual({
      code: 0,
      stdout: '2 rows deleted, and queue "orders" with them\n',
      stderr: '',
    })
    expect(await runHere(['delete-queue', 'orders'], env)).toMatchObject({ code: 1 })
    await client.query("SELECT lockstep.create_queue('empty', 1)")
    expect(await runHere(['delete-queue', 'empty', '--json'], env)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/"done": ?0/),
    })
    const { queues } = await library.stats()
    expect(queues.map(({ queue }) => queue)).not.toContain('empty')
  })
})

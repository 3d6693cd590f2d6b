import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Lockstep } from '../../src/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { poolOn, until } from '../support/store-environment.ts'

let server: TestDatabase
let pool: pg.Pool
let lockstep: Lockstep
let reader: pg.Client

beforeEach(async () => {
  server = await createDatabase()
  pool = poolOn(server.connectionString)
  lockstep = new Lockstep({ connectionString: server.connectionString })
  await lockstep.migrate()
  reader = new pg.Client({ connectionString: server.connectionString, application_name: 'a report' })
  await reader.connect()
})
afterEach(async () => {
  await reader.end()
  await lockstep.close()
  await pool.end()
  await server.drop()
})

/** Begins a transaction that reads a view and stays open. */
async function readAndStay(): Promise<void> {
  await reader.query('BEGIN; SELECT count(*) FROM lockstep.waiting')
}

/** Makes it look as if an earlier release had migrated. */
async function age(): Promise<void> {
  await pool.query('UPDATE lockstep.release SET serial = serial - 1')
}

/** Reads a view until told to end. Returns the ms that the slowest read took. */
function readAgainAndAgain(): () => Promise<number> {
  let [ending, slowest, times] = [false, 0, 0]
  const reading = (async () => {
    while (!ending) {
      const startedAt = performance.now()
      await pool.query('SELECT count(*) FROM lockstep.waiting')
      slowest = Math.max(slowest, performance.now() - startedAt)
      times += 1
    }
  })()
  return async () => {
    ending = true
    await reading
    expect(times).toBeGreaterThan(10)
    return slowest
  }
}

test('P7: a migration with nothing to do locks nothing', async () => {
  await readAndStay()
  expect(await lockstep.migrate({ giveUpAfter: 0 })).toEqual({ applied: [], defined: false, raised: [] })
})

test('P7: a migration that has to change a view waits for who has read it, and holds up no other reader', async () => {
  await readAndStay()
  await age()
  const slowest = readAgainAndAgain()
  let tries = 0
  const waits = `SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock' AND relation IN
    (SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'lockstep'::regnamespace)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
  const migrated = lockstep.migrate()
  // Two tries that had to wait, with other reads in between.
  for (let waiting = false; tries < 2; ) {
    const now = (await pool.query(waits)).rowCount! > 0
    if (waiting && !now) tries += 1
    waiting = now
  }
  await reader.query('COMMIT')
  expect(await migrated).toMatchObject({ defined: true })
  expect(await slowest()).toBeLessThan(1_000)
})

test('a migration that gets no lock gives up, names who holds one, and has changed nothing', async () => {
  await readAndStay()
  await age()
  const { rows } = await pool.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'a report'")
  await expect(lockstep.migrate({ giveUpAfter: 400 })).rejects.toMatchObject({
    code: 'LOCKSTEP_LOCKED',
    message: expect.stringMatching(
      new RegExp(
        `migrating was given up.*pid ${rows[0].pid} \\(.*a report, idle in transaction.*lockstep\\.waiting`,
      ),
    ),
  })
  await reader.query('COMMIT')
  await until(async () => expect(await lockstep.migrate()).toMatchObject({ defined: true }))
})

test('giveUpAfter has to be a number of ms', async () => {
  await expect(lockstep.migrate({ giveUpAfter: -1 })).rejects.toMatchObject({ code: 'LOCKSTEP_BAD_OPTION' })
  await expect(lockstep.migrate({ patience: 1 } as never)).rejects.toMatchObject({
    code: 'LOCKSTEP_BAD_OPTION',
  })
})

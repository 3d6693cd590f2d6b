import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Logger } from '../../src/index.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { requireMigrated } from '../../src/postgres/release.ts'
import { SERIAL } from '../../src/postgres/serial.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
beforeEach(async () => {
  await env.query("DELETE FROM lockstep.migrations WHERE name = '9999_later'")
  await env.query('DELETE FROM lockstep.release')
  await migrate(env.database)
})
afterAll(() => env?.close())

/** Leaves what a later release would: a migration and a function that this release does not know. */
async function migratedBy(serial: number, oldestServed: number): Promise<void> {
  await env.query("INSERT INTO lockstep.migrations VALUES ('9999_later', 'now')")
  await env.query(
    `UPDATE lockstep.release SET serial = $1, oldest_served = $2, hash = 'other', version = '9.9.9'`,
    [serial, oldestServed],
  )
  await env.query(`CREATE OR REPLACE FUNCTION lockstep.micros(_at timestamptz) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE RETURN 4711`)
}

const micros = async () => (await env.query<{ at: number }>('SELECT lockstep.micros(now()) AS at'))[0]!.at

describe('on definitions of a later release that serves this one', () => {
  test('a migration leaves them alone and resolves, and a worker may start', async () => {
    await migratedBy(SERIAL + 3, SERIAL)
    expect(await migrate(env.database)).toEqual({
      applied: [],
      defined: false,
      newer: { serial: SERIAL + 3, version: '9.9.9' },
      raised: [],
    })
    expect(await micros()).toBe(4711)
    await requireMigrated(env.database)
  })
})

describe('on definitions of a later release that does not serve this one', () => {
  test('a migration and a worker’s start refuse, and nothing is changed', async () => {
    await migratedBy(SERIAL + 3, SERIAL + 1)
    const refused = {
      code: 'LOCKSTEP_SCHEMA_NEW',
      message: expect.stringMatching(
        new RegExp(
          `release 9\\.9\\.9 .*definitions ${SERIAL + 1} or later.*definitions ${SERIAL}\\): upgrade it`,
        ),
      ),
    }
    await expect(migrate(env.database)).rejects.toMatchObject(refused)
    await expect(requireMigrated(env.database)).rejects.toMatchObject(refused)
    expect(await micros()).toBe(4711)
  })
})

describe('on definitions of an earlier release', () => {
  test('a worker’s start refuses, and a migration brings its own', async () => {
    await env.query('UPDATE lockstep.release SET serial = $1, oldest_served = 0', [SERIAL - 1])
    await expect(requireMigrated(env.database)).rejects.toMatchObject({
      code: 'LOCKSTEP_SCHEMA_OLD',
      message: expect.stringContaining(
        `lacks definitions ${SERIAL}: it has ${SERIAL - 1}: run \`lockstep migrate\``,
      ),
    })
    expect(await migrate(env.database)).toMatchObject({ applied: [], defined: true })
    await requireMigrated(env.database)
  })

  test('so they do where nothing tells whose they are', async () => {
    await env.query('DELETE FROM lockstep.release')
    await expect(requireMigrated(env.database)).rejects.toMatchObject({ code: 'LOCKSTEP_SCHEMA_OLD' })
    expect(await migrate(env.database)).toMatchObject({ defined: true })
    await requireMigrated(env.database)
  })
})

test('on other definitions of the same number a worker’s start warns, and a migration brings its own', async () => {
  const warnings: unknown[] = []
  const logger = {
    warn: (fields: object, message: string) => warnings.push([fields, message]),
  } as unknown as Logger
  await requireMigrated(env.database, logger)
  expect(warnings).toEqual([])
  await env.query(`UPDATE lockstep.release SET hash = 'other', version = '0.0.1-mine'`)
  await requireMigrated(env.database, logger)
  expect(warnings).toEqual([
    [{ serial: SERIAL, version: '0.0.1-mine' }, expect.stringMatching(/differ from those of this release/)],
  ])
  expect(await migrate(env.database)).toMatchObject({ defined: true })
  await requireMigrated(env.database, logger)
  expect(warnings).toHaveLength(1)
})

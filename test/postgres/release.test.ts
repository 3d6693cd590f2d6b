import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Logger } from '../../src/index.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { requireMigrated } from '../../src/postgres/release.ts'
import { SERIAL } from '../../src/postgres/serial.ts'
import { openStage, type Stage } from '../support/rounds.ts'

let stage: Stage

beforeAll(async () => {
  stage = await openStage()
})
beforeEach(async () => {
  await stage.query("DELETE FROM lockstep.migrations WHERE name = '9999_later'")
  await stage.query('DELETE FROM lockstep.release')
  await migrate(stage.database)
})
afterAll(() => stage?.close())

/** A later release has been there: with a migration and a function that nobody here knows. */
async function migratedBy(serial: number, oldestServed: number): Promise<void> {
  await stage.query("INSERT INTO lockstep.migrations VALUES ('9999_later', 'now')")
  await stage.query(
    `UPDATE lockstep.release SET serial = $1, oldest_served = $2, hash = 'other', version = '9.9.9'`,
    [serial, oldestServed],
  )
  await stage.query(`CREATE OR REPLACE FUNCTION lockstep.micros(_at timestamptz) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE RETURN 4711`)
}

const micros = async () => (await stage.query<{ at: number }>('SELECT lockstep.micros(now()) AS at'))[0]!.at

describe('on definitions of a later release that serves this one', () => {
  test('a migration leaves them alone and resolves, and a worker may start', async () => {
    await migratedBy(SERIAL + 3, SERIAL)
    expect(await migrate(stage.database)).toEqual({
      applied: [],
      defined: false,
      newer: { serial: SERIAL + 3, version: '9.9.9' },
      raised: [],
    })
    expect(await micros()).toBe(4711)
    await requireMigrated(stage.database)
  })
})

describe('on definitions of a later release that does not serve this one', () => {
  test('a migration and a worker’s start refuse, and nothing is changed', async () => {
    await migratedBy(SERIAL + 3, SERIAL + 1)
    const refused = {
      code: 'LOCKSTEP_SCHEMA_NEW',
      message: expect.stringMatching(
        new RegExp(
          `release 9\\.9\\.9 .*from definitions ${SERIAL + 1} on.*definitions ${SERIAL}\\): upgrade it`,
        ),
      ),
    }
    await expect(migrate(stage.database)).rejects.toMatchObject(refused)
    await expect(requireMigrated(stage.database)).rejects.toMatchObject(refused)
    expect(await micros()).toBe(4711)
  })
})

describe('on definitions of an earlier release', () => {
  test('a worker’s start refuses, and a migration brings its own', async () => {
    await stage.query('UPDATE lockstep.release SET serial = $1, oldest_served = 0', [SERIAL - 1])
    await expect(requireMigrated(stage.database)).rejects.toMatchObject({
      code: 'LOCKSTEP_SCHEMA_OLD',
      message: expect.stringContaining(
        `lacks definitions ${SERIAL}: it has ${SERIAL - 1}: run \`lockstep migrate\``,
      ),
    })
    expect(await migrate(stage.database)).toMatchObject({ applied: [], defined: true })
    await requireMigrated(stage.database)
  })

  test('so they do where nothing tells whose they are', async () => {
    await stage.query('DELETE FROM lockstep.release')
    await expect(requireMigrated(stage.database)).rejects.toMatchObject({ code: 'LOCKSTEP_SCHEMA_OLD' })
    expect(await migrate(stage.database)).toMatchObject({ defined: true })
    await requireMigrated(stage.database)
  })
})

test('on other definitions of the same number a worker’s start warns, and a migration brings its own', async () => {
  const warnings: unknown[] = []
  const logger = {
    warn: (fields: object, message: string) => warnings.push([fields, message]),
  } as unknown as Logger
  await requireMigrated(stage.database, logger)
  expect(warnings).toEqual([])
  await stage.query(`UPDATE lockstep.release SET hash = 'other', version = '0.0.1-mine'`)
  await requireMigrated(stage.database, logger)
  expect(warnings).toEqual([
    [{ serial: SERIAL, version: '0.0.1-mine' }, expect.stringMatching(/not those of this release/)],
  ])
  expect(await migrate(stage.database)).toMatchObject({ defined: true })
  await requireMigrated(stage.database, logger)
  expect(warnings).toHaveLength(1)
})

import { afterEach, describe, expect, it } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { SERIAL } from '../../src/postgres/serial.ts'
import { runHere } from './in-process.ts'
import { useCommandWorkers } from './workers.ts'

const cli = useCommandWorkers()

afterEach(async () => {
  cli.killAll()
  await cli.client.query('DELETE FROM lockstep.release')
  await cli.library.migrate()
})

/** Does what the migration of a later release does. */
async function migratedByLater(oldestServed = SERIAL + 1): Promise<void> {
  await cli.client.query("UPDATE lockstep.release SET serial = $1, oldest_served = $2, version = '9.9.9'", [
    SERIAL + 1,
    oldestServed,
  ])
  await cli.client.query("SELECT pg_notify('lockstep', 'rebalance')")
}

const named = (event: string) => (line: { event?: string }) => line.event === event

describe('work that a later release no longer serves', () => {
  it('ends with 75, so that the new release takes its place, and does not start again', {
    tags: 'slow',
  }, async () => {
    const command = cli.work('several.ts')
    await command.line(named('started'))
    await migratedByLater()
    expect(await command.ended).toMatchObject({ code: 75 })
    expect(await command.line(named('stopped'))).toBeDefined()
    expect(await command.line(({ msg }) => /later release has migrated.*stopping/.test(msg))).toMatchObject({
      version: '9.9.9',
    })
    const again = await cli.work('several.ts').ended
    expect(again.stderr).toMatch(/release 9\.9\.9 .*upgrade it/)
    expect(again.code).toBe(75)
  })

  it('ends all its processes with --processes, and starts no other', async () => {
    const command = cli.work('several.ts', '--processes', '2')
    for (const index of [0, 1]) await command.line((line) => line.event === 'child' && line.index === index)
    await migratedByLater()
    expect(await command.ended).toMatchObject({ code: 75 })
    expect(command.lines.filter(({ msg }) => /starting another/.test(msg))).toEqual([])
  })
})

describe('migrate', () => {
  it('says that a later release has been there which serves this one, and what it raised', async () => {
    await migratedByLater(SERIAL)
    const left = await runHere(['migrate'], cli.env)
    expect(left).toEqual({
      code: 0,
      stdout: 'schema "lockstep": unchanged: release 9.9.9 has migrated it, and serves this one too\n',
      stderr: '',
    })
    await migratedByLater()
    expect(await runHere(['migrate'], cli.env)).toMatchObject({
      code: 1,
      stderr: expect.stringMatching('upgrade it'),
    })

    await cli.client.query('DELETE FROM lockstep.release')
    await cli.library.migrate()
    await cli.library.enqueue(defineQueue('behind'), [
      { id: 'a' },
      { id: 'a', payload: 'in a row of its own' },
    ])
    await cli.client.query(
      "SELECT setval('lockstep.pushes', 1, false); UPDATE lockstep.payloads SET seq = 10",
    )
    expect(await runHere(['migrate'], cli.env)).toMatchObject({
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
    await cli.library.enqueue(defineQueue('orders'), [{ id: 'a' }, { id: 'b' }])
    const refused = await runHere(['delete-queue', 'orders'], cli.env)
    expect(refused).toEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(
        /^lockstep: queue "orders" is not empty: it has 2 waiting jobs .*--with-jobs\)\n$/,
      ),
    })
    expect(await runHere(['delete-queue', 'orders', '--with-jobs'], cli.env)).toEqual({
      code: 0,
      stdout: '2 rows deleted, and queue "orders" with them\n',
      stderr: '',
    })
    expect(await runHere(['delete-queue', 'orders'], cli.env)).toMatchObject({ code: 1 })
    await cli.client.query("SELECT lockstep.create_queue('empty', 1)")
    expect(await runHere(['delete-queue', 'empty', '--json'], cli.env)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/"done": ?0/),
    })
    const { queues } = await cli.library.stats()
    expect(queues.map(({ queue }) => queue)).not.toContain('empty')
  })
})

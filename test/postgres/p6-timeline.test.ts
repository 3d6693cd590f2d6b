import { execFile } from 'node:child_process'
import { appendFile, chown, rm, stat, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type EmbeddedServer, startEmbeddedPostgres } from '../../src/postgres/embedded.ts'
import { type Board, openStage, Stage } from '../support/rounds.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

const EPOCH = 2 ** 32
/** More than a sequence writes ahead. */
const MANY = 40

/** Fences of so many claims, one after the other. */
async function fences(board: Board, count: number): Promise<number[]> {
  const player = await board.player()
  await board.push(...Array.from({ length: count }, () => ({ id: `${Math.random()}` })))
  const drawn: number[] = []
  for (let n = 0; n < count; n += 1) {
    const round = await player.take()
    drawn.push(round.fence)
    await player.complete(round)
  }
  return drawn
}

describe('P6 fences after a failover to a replica that lacked what was written last', () => {
  let server: EmbeddedServer
  let stage: Stage
  beforeAll(async () => {
    server = await startEmbeddedPostgres({ settings: { fsync: 'off' } })
    stage = new Stage(server.connectionString, 'lockstep', async () => {})
    await stage.lockstep.migrate()
  })
  afterAll(async () => {
    await stage?.close()
    await server?.stop()
  })

  /** The data as it is now takes the server's place later, and goes on with a timeline of its own. */
  async function replica(): Promise<() => Promise<void>> {
    const { dataDirectory } = server
    const copy = `${dataDirectory}-copy`
    const run = promisify(execFile)
    await server.restart({ whileDown: async () => void (await run('cp', ['-a', dataDirectory, copy])) })
    return () =>
      server.restart({
        shutdown: 'immediate',
        async whileDown() {
          const { uid, gid } = await stat(dataDirectory)
          await rm(dataDirectory, { recursive: true })
          await run('mv', [copy, dataDirectory])
          await appendFile(
            `${dataDirectory}/postgresql.auto.conf`,
            "restore_command = 'false'\nhot_standby = off\n",
          )
          await writeFile(`${dataDirectory}/recovery.signal`, '')
          await chown(`${dataDirectory}/recovery.signal`, uid, gid)
        },
      })
  }

  test('lie above all that were given out before, and so do the numbers of processes, each time', async () => {
    const board = await stage.queue()
    let highest = Math.max(...(await fences(board, 1)))
    for (const epoch of [1, 2]) {
      const promote = await replica()
      await fences(board, MANY)
      const process = await stage.process()
      highest = Math.max(highest, ...(await fences(board, 1)))
      await promote()
      const [{ last }] = (await stage.query('SELECT last_value AS last FROM lockstep.fences')) as [
        { last: number },
      ]
      expect(last).toBeLessThan(highest)
      expect(await stage.process()).toBeGreaterThan(process)
      const [fence, next] = await fences(board, 2)
      expect(fence).toBeGreaterThan(highest)
      expect(fence).toBeGreaterThanOrEqual(epoch * EPOCH)
      expect(next! - fence!).toBeLessThan(MANY)
    }
  })
})

describe('P6 the timeline', () => {
  let stage: Stage
  let board: Board
  beforeAll(async () => {
    stage = await openStage()
  })
  afterAll(() => stage?.close())
  beforeEach(async () => {
    board = await stage.queue()
    await stage.endSessions()
  })

  const epoch = async () => {
    const [row] = await stage.query<{ epoch: number }>(
      'SELECT last_value >> 32 AS epoch FROM lockstep.fences',
    )
    return row!.epoch
  }
  const pretend = (change: string) => stage.query(`UPDATE lockstep.timeline SET ${change}`)

  test('is noted by whoever registers first, and lifts nothing', async () => {
    await stage.query('DELETE FROM lockstep.timeline')
    const before = await epoch()
    await stage.process()
    expect(await stage.query('SELECT FROM lockstep.timeline')).toHaveLength(1)
    expect(await epoch()).toBe(before)
  })

  test('is asked before the first claim of a session, also by workers that were registered before', async () => {
    const player = await board.player()
    await board.push({ id: 'a' }, { id: 'b' })
    const session = await stage.session()
    await pretend('timeline = timeline - 1')
    const before = await epoch()
    const round = await player.on(session).take()
    expect(round.fence).toBeGreaterThan((before + 1) * EPOCH)
    // Of a session that has asked no more is asked: its server's timeline stays.
    await pretend('timeline = timeline - 1')
    expect((await player.on(session).take()).fence).toBeLessThan(round.fence + MANY)
  })

  test('lifts once, whoever asks at the same time: nobody draws a lower fence meanwhile', async () => {
    await pretend('system = 1')
    const before = await epoch()
    const players = await Promise.all(Array.from({ length: 5 }, () => board.player()))
    await pretend('system = 1')
    await board.push(...players.map((_, n) => ({ id: `${n}` })))
    const sessions = await Promise.all(players.map(() => stage.session()))
    const claims = await Promise.all(
      players.map((player, n) => player.on(sessions[n]!).claim({ batchSize: 1 })),
    )
    for (const { rounds } of claims)
      for (const { fence } of rounds) expect(fence).toBeGreaterThan((before + 2) * EPOCH)
    expect(await epoch()).toBe(before + 2)
  })

  test('further on by three lifts by three: two that came between are lost with what they noted', async () => {
    await pretend('timeline = timeline - 3')
    const before = await epoch()
    await stage.process()
    expect(await epoch()).toBe(before + 3)
  })
})

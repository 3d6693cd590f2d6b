import { execFile } from 'node:child_process'
import { appendFile, chown, rm, stat, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type EmbeddedServer, startEmbeddedPostgres } from '../../src/postgres/embedded.ts'
import { openStore, StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

const EPOCH = 2 ** 32
/** More than a sequence writes ahead. */
const MANY = 40

/** The fences of `count` claims, one after the other. */
async function fences(testQueue: TestQueue, count: number): Promise<number[]> {
  const claimer = await testQueue.claimer()
  await testQueue.push(...Array.from({ length: count }, () => ({ id: `${Math.random()}` })))
  const drawn: number[] = []
  for (let n = 0; n < count; n += 1) {
    const round = await claimer.take()
    drawn.push(round.fence)
    await claimer.complete(round)
  }
  return drawn
}

describe('P6 fences after a failover to a replica that lacked what was written last', () => {
  let server: EmbeddedServer
  let env: StoreEnvironment
  beforeAll(async () => {
    server = await startEmbeddedPostgres({ settings: { fsync: 'off' } })
    env = new StoreEnvironment(server.connectionString, 'lockstep', async () => {})
    await env.lockstep.migrate()
  })
  afterAll(async () => {
    await env?.close()
    await server?.stop()
  })

  /** Copies the data as it is now. Later, the copy replaces the server's data and continues with its own timeline. */
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

  test('lie above all that were given out before, and so do the numbers of processes, each time', {
    tags: 'slow',
  }, async () => {
    const testQueue = await env.queue()
    let highest = Math.max(...(await fences(testQueue, 1)))
    for (const epoch of [1, 2]) {
      const promote = await replica()
      await fences(testQueue, MANY)
      const process = await env.process()
      highest = Math.max(highest, ...(await fences(testQueue, 1)))
      await promote()
      const [{ last }] = (await env.query('SELECT last_value AS last FROM lockstep.fences')) as [
        { last: number },
      ]
      expect(last).toBeLessThan(highest)
      expect(await env.process()).toBeGreaterThan(process)
      const [fence, next] = await fences(testQueue, 2)
      expect(fence).toBeGreaterThan(highest)
      expect(fence).toBeGreaterThanOrEqual(epoch * EPOCH)
      expect(next! - fence!).toBeLessThan(MANY)
    }
  })
})

describe('P6 the timeline', () => {
  let env: StoreEnvironment
  let testQueue: TestQueue
  beforeAll(async () => {
    env = await openStore()
  })
  afterAll(() => env?.close())
  beforeEach(async () => {
    testQueue = await env.queue()
    await env.endSessions()
  })

  const epoch = async () => {
    const [row] = await env.query<{ epoch: number }>('SELECT last_value >> 32 AS epoch FROM lockstep.fences')
    return row!.epoch
  }
  const pretend = (change: string) => env.query(`UPDATE lockstep.timeline SET ${change}`)

  test('is noted by whoever registers first, and lifts nothing', async () => {
    await env.query('DELETE FROM lockstep.timeline')
    const before = await epoch()
    await env.process()
    expect(await env.query('SELECT FROM lockstep.timeline')).toHaveLength(1)
    expect(await epoch()).toBe(before)
  })

  test('is asked before the first claim of a session, also by workers that were registered before', async () => {
    const claimer = await testQueue.claimer()
    await testQueue.push({ id: 'a' }, { id: 'b' })
    const session = await env.session()
    await pretend('timeline = timeline - 1')
    const before = await epoch()
    const round = await claimer.on(session).take()
    expect(round.fence).toBeGreaterThan((before + 1) * EPOCH)
    // A session that has asked does not ask again: its server's timeline stays the same.
    await pretend('timeline = timeline - 1')
    expect((await claimer.on(session).take()).fence).toBeLessThan(round.fence + MANY)
  })

  test('lifts once, whoever asks at the same time: nobody draws a lower fence meanwhile', async () => {
    await pretend('system = 1')
    const before = await epoch()
    const claimers = await Promise.all(Array.from({ length: 5 }, () => testQueue.claimer()))
    await pretend('system = 1')
    await testQueue.push(...claimers.map((_, n) => ({ id: `${n}` })))
    const sessions = await Promise.all(claimers.map(() => env.session()))
    const claims = await Promise.all(
      claimers.map((claimer, n) => claimer.on(sessions[n]!).claim({ batchSize: 1 })),
    )
    for (const { rounds } of claims)
      for (const { fence } of rounds) expect(fence).toBeGreaterThan((before + 2) * EPOCH)
    expect(await epoch()).toBe(before + 2)
  })

  test('further on by three lifts by three: two that came between are lost with what they noted', async () => {
    await pretend('timeline = timeline - 3')
    const before = await epoch()
    await env.process()
    expect(await epoch()).toBe(before + 3)
  })
})

import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { defineQueue, Lockstep, type Queue, type Worker } from '../../src/index.ts'
import { type EmbeddedServer, startEmbeddedPostgres } from '../../src/postgres/embedded.ts'

/** For a separate server with room for few locks. */
const SETTINGS = {
  fsync: 'off',
  max_connections: '24',
  max_locks_per_transaction: '10',
  max_worker_processes: '2',
  max_wal_senders: '2',
  max_pred_locks_per_transaction: '10',
}

let server: EmbeddedServer
let lockstep: Lockstep
let admin: pg.Client
let workers: Worker[] = []
let warnings: string[]

beforeAll(async () => {
  server = await startEmbeddedPostgres({ settings: SETTINGS })
  admin = new pg.Client({ connectionString: server.connectionString })
  await admin.connect()
})
beforeEach(async () => {
  // Of this test alone: a connection of a worker before it may break only now.
  const mine: string[] = []
  const note = (_: object, message: string) => void mine.push(message)
  warnings = mine
  const logger = { debug() {}, info() {}, warn: note, error: note }
  lockstep = new Lockstep({ connectionString: server.connectionString, logger })
  await lockstep.migrate()
})
afterEach(async () => {
  await Promise.all(workers.map((worker) => worker.stop()))
  workers = []
  await lockstep.close()
})
afterAll(async () => {
  await admin?.end()
  await server?.stop()
})

let queues = 0
function queueOf(shards: number): Queue {
  queues += 1
  return defineQueue(`queue ${queues}`, { shards, perform() {} })
}

function create(...queues: Queue[]): Worker {
  const worker = lockstep.createWorker({ queues, slots: 1, rebalanceInterval: 100, shutdownTimeout: 100 })
  workers.push(worker)
  return worker
}

async function held(): Promise<number> {
  const { rows } = await admin.query(
    "SELECT count(*)::int AS held FROM pg_locks WHERE locktype = 'advisory' AND classid = 'lockstep.jobs'::regclass",
  )
  return rows[0].held
}

const tooMany = (message: RegExp) => ({
  code: 'LOCKSTEP_TOO_MANY_LOCKS',
  message: expect.stringMatching(message),
})

describe('a worker whose shards need more locks than the server has room for', () => {
  test('refuses where that can’t work, before it takes one, and says what setting allows them', async () => {
    const worker = create(queueOf(16_384))
    const error = await worker.start().catch((error) => error)
    expect(error).toMatchObject(tooMany(/need 16386 locks.* max_locks_per_transaction = 10 .*reshard/))
    expect(warnings).toEqual([])
    expect(await held()).toBe(0)
    // The worker knows how the server uses the setting.
    const enough = Number(/set it to (\d+)/.exec(error.message)![1])
    const certain = Number(/room for (\d+)/.exec(error.message)![1])
    expect((enough * certain) / 10).toBeGreaterThanOrEqual(16_386)
    expect(((enough - 1) * certain) / 10).toBeLessThan(16_386)
  })

  test('refuses before it grows the queue to its definition', async () => {
    const queue = queueOf(3)
    await lockstep.enqueue(queue, { id: 'a' })
    const grown = defineQueue(queue.name, { shards: 16_384, perform() {} })
    await expect(create(grown).start()).rejects.toMatchObject(
      tooMany(/need 16386 locks.*in their definitions/),
    )
    const { rows } = await admin.query('SELECT shards FROM lockstep.queues WHERE name = $1', [queue.name])
    expect(rows).toEqual([{ shards: 3 }])
  })

  test('counts those that others hold', async () => {
    await admin.query('SELECT pg_advisory_lock(1, n) FROM generate_series(1, 200) AS n')
    const worker = create(queueOf(250))
    await worker.start()
    expect(warnings).toEqual([expect.stringMatching(/need 252 locks in addition to 20\d of others/)])
    await admin.query('SELECT pg_advisory_unlock_all()')
  })

  test('warns where it may work, and tries', async () => {
    const refused = await create(queueOf(16_384))
      .start()
      .catch((error) => error)
    // How far the table can grow beyond that differs between releases, but it can always grow a little.
    const shards = Number(/room for (\d+)/.exec(refused.message)![1]) + 10
    await create(queueOf(shards)).start()
    expect(warnings).toEqual([
      expect.stringMatching(`need ${shards + 2} locks.* the server may have more room`),
    ])
    expect(await held()).toBe(shards)
  })

  test('warns where it turns out not to work, and says why', async () => {
    await expect(create(queueOf(5_000)).start()).rejects.toMatchObject(
      tooMany(/out of shared memory; .*max_locks_per_transaction/),
    )
    // The connection may break at the same time, which is logged too.
    expect(warnings.filter((one) => one.includes('may have more room'))).toHaveLength(1)
  })

  test('says so while it runs, too', async () => {
    const queue = queueOf(10)
    const worker = create(queue)
    await worker.start()
    expect(warnings).toEqual([])
    const failure = new Promise((resolve) => worker.once('failure', resolve))
    await lockstep.reshard(queue, 5_000)
    expect(await failure).toMatchObject(tooMany(/max_locks_per_transaction/))
    await vi.waitFor(async () => expect(await held()).toBe(0))
    // The worker doesn't fill the table again and again, which would make others' statements fail. It reports the error
    // of the first try.
    const most: number[] = []
    const told: unknown[] = []
    worker.on('failure', (error) => told.push(error))
    await vi.waitFor(
      async () => {
        most.push(await held())
        expect(told.length).toBeGreaterThan(5)
      },
      { timeout: 10_000, interval: 5 },
    )
    expect(new Set(told)).toEqual(new Set([await failure]))
    expect(Math.max(...most)).toBe(0)
    const rebalanced = new Promise((resolve) => worker.once('rebalanced', resolve))
    await lockstep.reshard(queue, 10)
    expect(await rebalanced).toEqual({ shards: 10 })
  })
})

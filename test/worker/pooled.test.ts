import pg from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import { Lockstep } from '../../src/index.ts'
import { inversions, lost, overlaps } from '../support/checker.ts'
import { hasPgBouncer, type PgBouncer, startPgBouncer } from '../support/pgbouncer.ts'
import { Producer } from '../support/producer.ts'
import { Recorder } from '../support/recorder.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

/** What workers set in sessions of their own. */
const OURS = `name IN ('transaction_isolation', 'default_transaction_isolation', 'synchronous_commit', 'statement_timeout',
  'lock_timeout', 'transaction_timeout', 'idle_session_timeout', 'client_connection_check_interval') OR name LIKE 'tcp%'`
/** PgBouncer's connections to the server. */
const POOL_SIZE = 4

describe.skipIf(!hasPgBouncer())('where a pooler’s sessions are SERIALIZABLE by default', () => {
  let bouncer: PgBouncer

  beforeAll(async () => {
    const [{ name }] = (await env.sql('SELECT current_database() AS name')) as [{ name: string }]
    await env.sql(`ALTER DATABASE ${name} SET default_transaction_isolation = 'serializable'`)
    bouncer = await startPgBouncer(env.connectionString)
    return () => bouncer.stop()
  })

  /** What the application finds in each of the pooler's sessions. */
  async function settings(): Promise<Record<string, string>[]> {
    const clients = Array.from({ length: POOL_SIZE }, () => new pg.Client(bouncer.connectionString))
    await Promise.all(clients.map((client) => client.connect()))
    // No session comes twice, since each transaction ends only when all have begun.
    await Promise.all(clients.map((client) => client.query('BEGIN')))
    const text = `SELECT json_object_agg(name, setting) AS found, pg_backend_pid() AS pid FROM pg_settings WHERE ${OURS}`
    const rows = await Promise.all(clients.map(async (client) => (await client.query(text)).rows[0]))
    await Promise.all(clients.map((client) => client.query('COMMIT')))
    await Promise.all(clients.map((client) => client.end()))
    expect(new Set(rows.map(({ pid }) => pid)).size).toBe(POOL_SIZE)
    return rows.map(({ found }) => found)
  }

  test('the application’s transactions there keep their level, while a worker runs and after it has stopped', async () => {
    const before = await settings()
    expect(before[0]).toMatchObject({ transaction_isolation: 'serializable', tcp_user_timeout: '0' })
    const lockstep = open()
    const levels: string[] = []
    const plain = env.queue({ perform() {} })
    const transactional = env.transactional({
      perform: async (_, { tx }) => {
        const { rows } = await tx.query('SHOW transaction_isolation')
        levels.push(rows[0].transaction_isolation)
      },
    })
    const worker = env.create({ queues: [plain, transactional], poll: 50, rebalanceInterval: 50 }, lockstep)
    await worker.start()
    for (let round = 0; round < 5; round += 1) {
      const ids = Array.from({ length: 10 }, (_, index) => ({ id: `${round} ${index}` }))
      await lockstep.enqueue(plain, ids)
      await lockstep.enqueue(transactional, ids)
      expect(await settings()).toEqual(before)
      await eventually(async () => expect((await env.jobs(plain)) + (await env.jobs(transactional))).toBe(0))
    }
    expect(levels).toEqual(Array(50).fill('read committed'))
    await worker.stop()
    expect(await settings()).toEqual(before)
    expect(env.warnings).toEqual([])
  })

  test('a worker that is named no direct connection refuses, and leaves them as they are', async () => {
    const before = await settings()
    const { connectionString } = bouncer
    const lockstep = new Lockstep({ connectionString, logger: env.logger })
    env.later(() => lockstep.close())
    const worker = env.create({ queues: [env.queue({ perform() {} })] }, lockstep)
    await expect(worker.start()).rejects.toMatchObject({ code: 'LOCKSTEP_POOLED' })
    expect(await settings()).toEqual(before)
  })

  test('P1 P2 P3: a worker there works as ever, and none of its statements is a part of others’ conflicts', async () => {
    const recorder = new Recorder()
    const queue = env.queue({
      shards: 2,
      batchSize: 3,
      perform: recorder.around((batch) => {
        if (Math.random() < 0.1) throw new Error([...batch.keys()].join())
      }),
    })
    const worker = env.create({ queues: [queue], slots: 3 }, open())
    const reads = await watchReads()
    await worker.start()
    const producer = new Producer(env, queue, 15)
    await eventually(() => expect(recorder.runs.length).toBeGreaterThan(100))
    await producer.end()
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(lost(recorder.runs, producer.pushed)).toEqual([])
    expect(overlaps(recorder.runs)).toEqual([])
    expect(inversions(recorder.runs, (payload) => payload as number)).toEqual([])
    expect(await reads()).toEqual([])
  })

  function open(): Lockstep {
    const { connectionString, logger } = env
    const lockstep = new Lockstep({
      connectionString: bouncer.connectionString,
      directUrl: connectionString,
      logger,
    })
    env.later(() => lockstep.close())
    return lockstep
  }

  /**
   * What SERIALIZABLE transactions read from the tables of a worker. The server remembers the reads of each while
   * another such transaction is open that began before.
   */
  async function watchReads(): Promise<() => Promise<string[]>> {
    const witness = await env.session()
    await witness.query('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT FROM pg_class')
    return async () => {
      const rows = await env.sql<{ name: string }>(
        `SELECT DISTINCT l.relation::regclass::text AS name FROM pg_locks l
         WHERE l.mode = 'SIReadLock' AND l.relation IN ('lockstep.processes'::regclass, 'lockstep.counters'::regclass)
           AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      )
      await witness.query('COMMIT')
      return rows.map(({ name }) => name)
    }
  }
})

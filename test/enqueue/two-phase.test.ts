import type pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Queue } from '../../src/index.ts'
import { type EmbeddedServer, startEmbeddedPostgres } from '../../src/postgres/embedded.ts'
import { eventually, WorkerEnvironment } from '../support/worker-environment.ts'

const env = new WorkerEnvironment()
let server: EmbeddedServer
let performed: string[] = []

beforeAll(async () => {
  server = await startEmbeddedPostgres({ settings: { fsync: 'off', max_prepared_transactions: '5' } })
  await env.open({ connectionString: server.connectionString, drop: async () => {} })
})
afterEach(async () => {
  await env.tidy()
  performed = []
})
afterAll(async () => {
  await env.close()
  await server?.stop()
})

const recording = () =>
  env.queue({ batchSize: 10_000, perform: (batch) => void performed.push(...batch.keys()) })

/** A queue whose worker waits for wake-ups. */
async function idle(poll = 50): Promise<Queue> {
  const queue = recording()
  await env.work({ queues: [queue], poll })
  await env.idle(queue)
  return queue
}

const jobs = (count: number) => Array.from({ length: count }, (_, index) => ({ id: `${index}` }))
const refused = 'cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY'

/** What a client in any language does. */
const inSql = (name: string) => async (tx: pg.Client, queue: Queue, count: number) => {
  await tx.query('SET LOCAL lockstep.wake = off')
  const ids = jobs(count).map(({ id }) => id)
  const many = 'SELECT lockstep.enqueue_many($1, $2, NULL, NULL, NULL, NULL)'
  if (name === 'enqueue_many') await tx.query(many, [queue.name, ids])
  else for (const id of ids) await tx.query('SELECT lockstep.enqueue($1, $2)', [queue.name, id])
}

describe('P4 a transaction that is to be prepared (two-phase commit)', () => {
  test.each([1, 2_500])('can’t be where a worker idles: it would be told of %i jobs', async (count) => {
    const queue = await idle(60_000)
    const tx = await env.session()
    await tx.query('BEGIN')
    await env.lockstep.enqueue(queue, jobs(count), { tx })
    await expect(tx.query(`PREPARE TRANSACTION 'told'`)).rejects.toThrow(refused)
    expect(await env.jobs(queue)).toBe(0)
  })

  test.each([
    ['enqueue with `wake: false`', 1, withoutWake],
    ['enqueue with `wake: false`', 2_500, withoutWake],
    ['enqueue in SQL, after SET LOCAL lockstep.wake', 2, inSql('enqueue')],
    ['enqueue_many in SQL, after SET LOCAL lockstep.wake', 1_000, inSql('enqueue_many')],
  ])('can be with %s, and %i jobs are performed once it commits', async (_name, count, push) => {
    const queue = await idle()
    const tx = await env.session()
    await tx.query('BEGIN')
    await push(tx, queue, count)
    await tx.query(`PREPARE TRANSACTION 'quiet'`)
    expect(await env.jobs(queue)).toBe(0)
    expect(performed).toEqual([])
    await env.sql(`COMMIT PREPARED 'quiet'`)
    await eventually(() => expect(performed).toHaveLength(count))
  })

  test('leaves nothing when it is rolled back', async () => {
    const queue = await idle()
    const tx = await env.session()
    await tx.query('BEGIN')
    await withoutWake(tx, queue, 3)
    await tx.query(`PREPARE TRANSACTION 'undone'`)
    await env.sql(`ROLLBACK PREPARED 'undone'`)
    expect(await env.jobs(queue)).toBe(0)
  })

  test('is named, as what it locks keeps a migration waiting', async () => {
    const tx = await env.session()
    await tx.query('BEGIN; SELECT FROM lockstep.waiting')
    await tx.query(`PREPARE TRANSACTION 'left behind'`)
    env.later(() => env.sql(`ROLLBACK PREPARED 'left behind'`))
    await env.sql('UPDATE lockstep.release SET serial = serial - 1')
    await expect(env.lockstep.migrate({ giveUpAfter: 200 })).rejects.toMatchObject({
      code: 'LOCKSTEP_LOCKED',
      message: expect.stringMatching(
        /: prepared transaction 'left behind' \(.*lockstep\.waiting.*ROLLBACK PREPARED/,
      ),
    })
    await env.sql('UPDATE lockstep.release SET serial = serial + 1')
  })

  test('can be where no worker idles: the look for one leaves no lock behind', async () => {
    const queue = recording()
    const tx = await env.session()
    await tx.query('BEGIN')
    await env.lockstep.enqueue(queue, jobs(1), { tx })
    await env.lockstep.enqueue(queue, jobs(2_500), { tx })
    await tx.query(`PREPARE TRANSACTION 'unheard'`)
    await env.sql(`COMMIT PREPARED 'unheard'`)
    expect(await env.jobs(queue)).toBe(2_500)
  })
})

async function withoutWake(tx: pg.Client, queue: Queue, count: number): Promise<void> {
  await env.lockstep.enqueue(queue, jobs(count), { tx, wake: false })
}

test.each([
  [{ wake: false }, '`wake: false` needs `tx`'],
  [{ wake: 0 }, 'wake must be true or false, not 0'],
])('%j is no option of enqueue without a transaction', async (options, message) => {
  const pushed = env.lockstep.enqueue(recording(), { id: 'a' }, options as never)
  await expect(pushed).rejects.toMatchObject({
    code: 'LOCKSTEP_BAD_OPTION',
    message: expect.stringContaining(message),
  })
})

test('a transaction that is prepared holds back VACUUM, and its age shows', async () => {
  const session = await env.session()
  await session.query(`BEGIN; SELECT txid_current(); PREPARE TRANSACTION 'snapshot age'`)
  expect(await env.lockstep.snapshotAge()).toBeGreaterThan(0)
  await session.query(`ROLLBACK PREPARED 'snapshot age'`)
  await eventually(async () => expect(await env.lockstep.snapshotAge()).toBe(0))
})

import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import type { Queue } from '../../src/index.ts'
import { Recorder } from '../support/recorder.ts'
import { pidOf } from '../support/store-environment.ts'
import {
  eventually,
  Gate,
  next,
  type TransactionalPerform,
  useWorkers,
} from '../support/worker-environment.ts'

const env = useWorkers()
const NEVER_AGAIN = { retryIn: () => 3_600 }

type Tx = Parameters<TransactionalPerform>[1]['tx']

beforeAll(async () => {
  await env.sql('CREATE TABLE accounts (id text PRIMARY KEY)')
  await env.sql(
    'CREATE TABLE bookings (id text, account text REFERENCES accounts DEFERRABLE INITIALLY DEFERRED)',
  )
  await env.sql(`
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = TG_ARGV[0]; END $$`)
  for (const [table, code] of Object.entries({ conflicts: '40001', deadlocks: '40P01' })) {
    await env.sql(`CREATE TABLE ${table} (id text)`)
    await env.sql(`
      CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON ${table} DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION refuse('${code}')`)
  }
})

const book = (tx: Tx, id: string, account: string) =>
  tx.query('INSERT INTO bookings VALUES ($1, $2)', [id, account])

/** The server reports the end between two statements, so that no statement rejects. */
function ended(tx: Tx): Promise<unknown> {
  return new Promise((resolve) => tx.once('end', () => resolve(undefined)))
}

/** The current or next statement rejects. A handler that doesn't notice goes on. */
async function outlive(tx: Tx, setting: string): Promise<void> {
  await tx.query(`SET LOCAL ${setting} = 50`)
  if (setting.startsWith('idle')) await ended(tx)
  else await tx.query('SELECT pg_sleep(600)').catch(() => {})
}

describe('R6: a transaction that can’t be committed is a failure', () => {
  const refusals: Record<string, { perform: TransactionalPerform; error: RegExp }> = {
    'a deferred constraint': { perform: (_, { tx }) => book(tx, 'poor', 'nobody'), error: /foreign key/ },
    'a conflict that the COMMIT ends with': {
      perform: (_, { tx }) => tx.query(`INSERT INTO conflicts VALUES ('poor')`),
      error: /refused/,
    },
    'a deadlock that the COMMIT ends with': {
      perform: (_, { tx }) => tx.query(`INSERT INTO deadlocks VALUES ('poor')`),
      error: /refused/,
    },
    'a role that may not complete': {
      perform: (_, { tx }) => tx.query('SET LOCAL ROLE pg_monitor'),
      error: /permission denied/,
    },
    'a transaction left idle for too long': {
      perform: (_, { tx }) => outlive(tx, 'idle_in_transaction_session_timeout'),
      error: /the server ended the handler’s transaction: .*idle-in-transaction/,
    },
  }

  test.each(Object.entries(refusals))('%s', async (_, { perform, error }) => {
    const recorder = new Recorder()
    const queue = env.transactional({ ...NEVER_AGAIN, perform: recorder.around(perform) })
    const failed = await failureOf(queue)
    expect(failed).toMatchObject({ id: 'poor', retryCount: 0, retryIn: 3_600 })
    expect(String(failed.error)).toMatch(error)
    expect(await env.job(queue, 'poor')).toMatchObject({
      retry_count: 0,
      claimed_by: null,
      error: expect.stringMatching(error),
    })
    expect(recorder.runs).toHaveLength(1)
    expect(await env.sql('SELECT FROM bookings')).toEqual([])
  })

  test('a transaction that took too long, where the server has a time-out for it', async () => {
    const { rows } = await env.pool.query(`SELECT FROM pg_settings WHERE name = 'transaction_timeout'`)
    // Older servers only end idle transactions.
    const setting = rows.length > 0 ? 'transaction_timeout' : 'idle_in_transaction_session_timeout'
    const queue = env.transactional({ ...NEVER_AGAIN, perform: (_, { tx }) => outlive(tx, setting) })
    expect(String((await failureOf(queue)).error)).toMatch(/the server ended the handler’s transaction/)
  })

  test('R7: and its payload dies when the retries are used up', async () => {
    const recorder = new Recorder()
    const queue = env.transactional({
      maxRetryCount: 2,
      perform: recorder.around((_, { tx }) => book(tx, 'poor', 'nobody')),
    })
    const worker = await env.work({ queues: [queue] })
    const died = next(worker, 'died')
    await env.lockstep.enqueue(queue, { id: 'poor' })
    await died
    expect(recorder.runs).toHaveLength(3)
    expect(await env.jobs(queue)).toBe(0)
  })

  test('R9: of a batch the id at fault alone: the others are performed again without it, and stored once', async () => {
    const recorder = new Recorder()
    const ids = Array.from({ length: 10 }, (_, index) => `id-${index}`)
    await env.sql(`INSERT INTO accounts VALUES ('some')`)
    const queue = env.transactional({
      ...NEVER_AGAIN,
      shards: 1,
      batchSize: ids.length,
      timeout: 60_000,
      perform: recorder.around(async (batch, { tx }) => {
        for (const id of batch.keys()) await book(tx, id, id === 'id-6' ? 'nobody' : 'some')
      }),
    })
    await env.lockstep.enqueue(
      queue,
      ids.map((id) => ({ id })),
    )
    const worker = env.create({ queues: [queue] })
    const failed = vi.fn()
    worker.on('failed', failed)
    await worker.start()
    await eventually(async () => expect(await env.jobs(queue)).toBe(1))
    await eventually(() => expect(failed).toHaveBeenCalledTimes(1))
    expect(failed).toHaveBeenCalledWith(expect.objectContaining({ id: 'id-6', retryCount: 0 }))
    const booked = await env.sql<{ id: string }>('SELECT id FROM bookings ORDER BY id')
    expect(booked.map(({ id }) => id)).toEqual(ids.filter((id) => id !== 'id-6'))
    // In batches of ten, five, three, two and one.
    for (const id of ids) expect(recorder.of(id).length).toBeLessThanOrEqual(5)
  })

  const swallowed: [string, (tx: Tx) => unknown][] = [
    ['swallowed', (tx) => tx.query('SELECT 1 / 0').catch(() => {})],
    ['not awaited', (tx) => void tx.query('SELECT 1 / 0').catch(() => {})],
    [
      'swallowed after a savepoint that is not rolled back to',
      async (tx) => {
        await tx.query('SAVEPOINT before')
        await tx.query('SELECT 1 / 0').catch(() => {})
      },
    ],
  ]

  test.each(swallowed)(
    'R9: where a statement of one id failed and was %s, that id dies alone',
    async (_, slip) => {
      const recorder = new Recorder()
      const ids = Array.from({ length: 10 }, (_, index) => `id-${index}`)
      await env.sql('TRUNCATE bookings, accounts')
      await env.sql(`INSERT INTO accounts VALUES ('some')`)
      const queue = env.transactional({
        shards: 1,
        batchSize: ids.length,
        maxRetryCount: 1,
        perform: recorder.around(async (batch, { tx }) => {
          for (const id of batch.keys()) await book(tx, id, 'some')
          if (batch.has('id-9')) await slip(tx)
        }),
      })
      await env.lockstep.enqueue(
        queue,
        ids.map((id) => ({ id })),
      )
      const worker = env.create({ queues: [queue] })
      const [failed, died] = [vi.fn(), vi.fn()]
      worker.on('failed', failed)
      worker.on('died', died)
      await worker.start()
      await eventually(async () => {
        expect(await env.jobs(queue)).toBe(0)
        expect(died).toHaveBeenCalled()
      })
      expect(new Set(failed.mock.calls.map(([{ id }]) => id))).toEqual(new Set(['id-9']))
      expect(died).toHaveBeenCalledTimes(1)
      expect(String(died.mock.calls[0]![0].error)).toMatch(/left its transaction aborted/)
      const booked = await env.sql<{ id: string }>('SELECT id FROM bookings ORDER BY id')
      expect(booked.map(({ id }) => id)).toEqual(ids.slice(0, -1))
      // In batches of ten, five, three (or two) and alone, and once more after its failure.
      expect(recorder.of('id-9').length).toBeLessThanOrEqual(6)
    },
  )

  test('P3: and they get their payloads as they were pushed, whatever the handler has done with those it got', async () => {
    await env.sql('CREATE TABLE amounts (id text, cents integer)')
    const queue = env.transactional({
      ...NEVER_AGAIN,
      shards: 1,
      batchSize: 4,
      async perform(batch, { tx }) {
        for (const [id, given] of batch) {
          const payloads = given as { euros: number }[]
          for (const payload of payloads) payload.euros *= 100
          for (let payload = payloads.shift(); payload; payload = payloads.shift())
            await tx.query('INSERT INTO amounts VALUES ($1, $2)', [id, payload.euros])
          if (id === 'c') await book(tx, id, 'nobody')
        }
      },
    })
    await env.lockstep.enqueue(
      queue,
      ['a', 'b', 'c', 'd'].flatMap((id) => [1, 2].map((euros) => ({ id, payload: { euros }, score: euros }))),
    )
    const worker = env.create({ queues: [queue] })
    const failed = next(worker, 'failed')
    await worker.start()
    env.later(() => worker.stop())
    expect(await failed).toMatchObject({ id: 'c' })
    await eventually(async () => expect(await env.jobs(queue)).toBe(1))
    const ids = ['a', 'b', 'd']
    expect(await env.sql('SELECT * FROM amounts ORDER BY id, cents')).toEqual(
      ids.flatMap((id) => [100, 200].map((cents) => ({ id, cents }))),
    )
    const [left] = (await env.lockstep.find(queue, { id: { from: 'c', to: 'c' } })).items
    expect(left!.payloads.map(({ payload }) => payload)).toEqual([{ euros: 1 }, { euros: 2 }])
  })

  test('R9: where the handler throws, or has committed by itself, all of its batch fails, and no part is performed apart', async () => {
    for (const end of [() => Promise.reject(new Error('no')), (tx: Tx) => tx.query('COMMIT')]) {
      const performed: string[][] = []
      const queue = env.transactional({
        ...NEVER_AGAIN,
        shards: 1,
        batchSize: 2,
        perform: async (batch, { tx }) => {
          performed.push([...batch.keys()])
          await end(tx)
        },
      })
      await env.lockstep.enqueue(queue, [{ id: 'a' }, { id: 'b' }])
      await env.work({ queues: [queue] })
      for (const id of ['a', 'b'])
        await eventually(async () => expect(await env.job(queue, id)).toMatchObject({ retry_count: 0 }))
      expect(performed).toEqual([['a', 'b']])
    }
  })

  test('R15: parts of a batch that have not begun when the worker stops go back', async () => {
    let stopped: Promise<boolean> | undefined
    const ids = ['a', 'b', 'c', 'd']
    const performed: string[][] = []
    const queue = env.transactional({
      ...NEVER_AGAIN,
      shards: 1,
      batchSize: ids.length,
      perform: async (batch, { tx }) => {
        performed.push([...batch.keys()])
        if (performed.length === 1) await book(tx, 'a', 'nobody')
        else stopped ??= worker.stop()
      },
    })
    const worker = env.create({ queues: [queue], shutdownTimeout: 10_000 })
    // A worker that is told to stop while it starts would start first.
    await worker.start()
    await env.lockstep.enqueue(
      queue,
      ids.map((id) => ({ id })),
    )
    await eventually(() => expect(stopped).toBeDefined())
    expect(await stopped).toBe(true)
    expect(performed).toEqual([ids, ['a', 'b']])
    for (const id of ['c', 'd'])
      expect(await env.job(queue, id)).toMatchObject({ claimed_by: null, retry_count: -1, crashes: 0 })
  })
})

test('P3: a connection that breaks through nobody’s fault is no failure: the round is performed again', async () => {
  const recorder = new Recorder()
  const queue = env.transactional({
    perform: recorder.around(async (_, { tx }) => {
      if (recorder.runs.length > 1) return
      const pid = await pidOf(tx as never)
      await Promise.all([ended(tx), env.sql('SELECT pg_terminate_backend($1::integer)', [pid])])
    }),
  })
  const worker = await env.work({ queues: [queue] })
  const failed = vi.fn()
  worker.on('failed', failed)
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'cut off' })
  await completed
  expect(recorder.runs).toHaveLength(2)
  expect(failed).not.toHaveBeenCalled()
})

test('P7: time-outs that a handler sets for its own statements are not those of the completion', async () => {
  const gate = new Gate()
  const queue = env.transactional({
    perform: async (_, { tx }) => {
      await gate.opened
      await tx.query('SET LOCAL statement_timeout = 50')
    },
  })
  const worker = await env.work({ queues: [queue] })
  const failed = vi.fn()
  worker.on('failed', failed)
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'timed' })
  await started
  const producer = await env.session()
  await producer.query('BEGIN')
  await producer.query('SELECT lockstep.enqueue($1, $2, $3)', [queue.name, 'timed', '2'])
  const pid = await pidOf(producer)
  gate.open()
  const waiting = () => env.sql('SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))', [pid])
  await eventually(async () => expect(await waiting()).toHaveLength(1))
  await sleep(200)
  await producer.query('COMMIT')
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(failed).not.toHaveBeenCalled()
})

async function failureOf(queue: Queue) {
  const worker = await env.work({ queues: [queue] })
  const failed = next(worker, 'failed')
  await env.lockstep.enqueue(queue, { id: 'poor' })
  return failed
}

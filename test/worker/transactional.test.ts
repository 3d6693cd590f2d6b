import { beforeAll, expect, test, vi } from 'vitest'
import { type Batch, defineQueue, type Instrumentation, Lockstep, TimeoutError } from '../../src/index.ts'
import { Recorder } from '../support/recorder.ts'
import {
  aborted,
  eventually,
  Gate,
  next,
  type TransactionalPerform,
  useWorkers,
} from '../support/worker-environment.ts'

const env = useWorkers()

beforeAll(async () => {
  await env.sql('CREATE TABLE written (queue text, id text, payload jsonb)')
})

test('P3: the handler’s writes and the completion become visible together', async () => {
  const gate = new Gate()
  const queue = env.transactional({
    perform: async (batch, { tx }) => {
      await write(batch, tx)
      await gate.opened
    },
  })
  const worker = await env.work({ queues: [queue] })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
  await started
  const both = () =>
    env.sql<{ written: number; jobs: number }>(`
      SELECT (SELECT count(*)::int FROM written WHERE id = 'a') AS written,
        (SELECT count(*)::int FROM lockstep.jobs WHERE id = 'a') AS jobs`)
  expect(await both()).toEqual([{ written: 0, jobs: 1 }])
  const completed = next(worker, 'completed')
  gate.open()
  await completed
  expect(await both()).toEqual([{ written: 1, jobs: 0 }])
})

test('P3: a handler that throws leaves no writes', async () => {
  const queue = env.transactional({
    retryIn: () => 3600,
    perform: async (batch, { tx }) => {
      await write(batch, tx)
      throw new Error('no')
    },
  })
  expect(await failureOf(queue)).toMatchObject({ error: new Error('no'), retryCount: 0 })
  expect(await written('poor')).toBe(0)
})

test('R6: retryIn is asked once for each failure', async () => {
  const asked: number[] = []
  const queue = env.transactional({
    maxRetryCount: 2,
    retryIn(retryCount) {
      asked.push(retryCount)
      return 0
    },
    perform: () => Promise.reject(new Error('no')),
  })
  const worker = await env.work({ queues: [queue] })
  const died = next(worker, 'died')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await died
  expect(asked).toEqual([0, 1])
})

test('P3: context.fail of one id: the others’ writes and completions are stored with its failure', async () => {
  const queue = env.transactional({
    shards: 1,
    batchSize: 2,
    retryIn: () => 3600,
    perform: async (batch, context) => {
      await write(new Map([['spared', batch.get('spared')!]]), context.tx)
      context.fail('failed', new Error('this one'))
    },
  })
  await env.lockstep.enqueue(queue, [{ id: 'spared' }, { id: 'failed' }])
  const worker = env.create({ queues: [queue] })
  const [failed, completed] = [next(worker, 'failed'), next(worker, 'completed')]
  await worker.start()
  expect(await completed).toMatchObject({ ids: ['spared'] })
  expect(await failed).toMatchObject({ id: 'failed', retryCount: 0 })
  expect(await written('spared')).toBe(1)
  expect(await env.job(queue, 'failed')).toMatchObject({ retry_count: 0, claimed_by: null })
  expect(await env.jobs(queue)).toBe(1)
})

test('where no connection can be had for handlers, their queue is tried again at poll, and nothing has failed', async () => {
  const { network, lockstep } = await env.distant()
  const queue = env.transactional({ shards: 1, perform: ({ size }) => void size })
  const worker = env.create({ queues: [queue], slots: 1, poll: 500 }, lockstep)
  await worker.start()
  env.later(() => worker.stop())
  const [completed, failed] = [next(worker, 'completed'), vi.fn()]
  worker.on('failed', failed)
  network.refuse()
  await env.lockstep.enqueue(queue, { id: 'refused' })
  const refusals = () =>
    env.warnings.filter(
      ({ message }) =>
        message === 'a handler’s transaction failed to begin or to commit: its jobs are tried again',
    )
  // The first may be due to one broken connection.
  await eventually(() => expect(refusals().length).toBeGreaterThanOrEqual(2))
  const since = performance.now()
  await eventually(() => expect(refusals().length).toBeGreaterThanOrEqual(4))
  expect(performance.now() - since).toBeGreaterThan(500)
  expect(refusals().length).toBeLessThan(10)
  network.restore()
  expect(await completed).toMatchObject({ ids: ['refused'] })
  expect(failed).not.toHaveBeenCalled()
})

test('P7: while a producer holds the row, the round is rolled back and performed again: no failure', async () => {
  const recorder = new Recorder()
  const queue = env.transactional({ perform: recorder.around((batch, { tx }) => write(batch, tx)) })
  const gate = new Gate()
  const worker = await env.work({ queues: [queue], middleware: [(_, perform) => gate.opened.then(perform)] })
  const failed = vi.fn()
  worker.on('failed', failed)
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'held', payload: 1 })
  await started
  const producer = await env.session()
  await producer.query('BEGIN')
  await producer.query('SELECT lockstep.enqueue($1, $2, $3)', [queue.name, 'held', '2'])
  gate.open()
  await eventually(async () => expect(await lockWaits()).toBe(1))
  await eventually(async () => expect(await lockWaits()).toBe(0))
  expect(await written('held')).toBe(0)
  await producer.query('COMMIT')
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(recorder.runs.length).toBeGreaterThanOrEqual(2)
  expect(await written('held')).toBe(2)
  expect(failed).not.toHaveBeenCalled()
})

test('P7: in a deadlock with a producer it is the worker that gives way', async () => {
  await env.sql('CREATE TABLE accounts AS SELECT 1 AS account, 0 AS balance')
  const producer = await env.session()
  const gate = new Gate()
  const recorder = new Recorder()
  const queue = env.transactional({
    perform: recorder.around(async (_, { tx }) => {
      await tx.query('UPDATE accounts SET balance = balance + 1')
      await gate.opened
    }),
  })
  const worker = await env.work({ queues: [queue] })
  const failed = vi.fn()
  worker.on('failed', failed)
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'dead', payload: 1 })
  await started
  await producer.query('BEGIN')
  await producer.query('SELECT lockstep.enqueue($1, $2, $3)', [queue.name, 'dead', '2'])
  await eventually(async () => {
    const [row] = await env.sql<{ held: boolean }>(
      `SELECT count(*) > 0 AS held FROM pg_stat_activity
       WHERE state = 'idle in transaction' AND query LIKE 'UPDATE acc%' AND datname = current_database()`,
    )
    expect(row!.held).toBe(true)
  })
  const update = producer.query('UPDATE accounts SET balance = balance + 10')
  gate.open()
  await update
  await producer.query('COMMIT')
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(failed).not.toHaveBeenCalled()
  const [{ balance }] = (await env.sql('SELECT balance FROM accounts')) as [{ balance: number }]
  // Two rounds, or one with both payloads, depending on how they met again.
  expect([11, 12]).toContain(balance)
  expect(recorder.runs.length).toBeGreaterThanOrEqual(2)
})

const breakers: [string, TransactionalPerform, RegExp][] = [
  ['commits', (_, { tx }) => tx.query('COMMIT'), /is lent to the handler: leave its BEGIN, COMMIT/],
  [
    'commits unseen',
    (_, { tx }) => tx.query('SELECT 1; COMMIT'),
    /ended its transaction itself.*leave COMMIT/,
  ],
  ['rolls back unseen', (_, { tx }) => tx.query('SELECT 1; ROLLBACK'), /ended its transaction itself/],
  [
    'commits and begins another',
    async (_, { tx }) => {
      await tx.query('SELECT 1; COMMIT')
      await tx.query('SELECT 1; BEGIN')
    },
    /ended its transaction itself/,
  ],
  [
    'swallows an error and leaves the transaction aborted',
    (_, { tx }) => tx.query('SELECT 1 / 0').catch(() => {}),
    /left its transaction aborted/,
  ],
]

test.each(breakers)('a handler that %s fails with a clear error', async (_, perform, message) => {
  const queue = env.transactional({ retryIn: () => 3600, perform })
  const { error } = await failureOf(queue)
  expect(String(error)).toMatch(message)
  expect(await env.job(queue, 'poor')).toMatchObject({
    retry_count: 0,
    claimed_by: null,
    error: expect.stringMatching(message),
  })
})

test('P3: a handler that sets another client_encoding has its own ids completed all the same', async () => {
  const queue = env.transactional({
    batchSize: 2,
    perform: async (_, { tx }) => {
      await tx.query(`SET client_encoding = 'LATIN1'`)
    },
  })
  const completed: string[] = []
  const worker = env.create({ queues: [queue], slots: 1 })
  worker.on('completed', ({ ids }) => completed.push(...ids))
  // In LATIN1, the bytes of the first id are the second one.
  await env.lockstep.enqueue(queue, [{ id: 'ü' }, { id: 'Ã¼', performIn: Date.now() + 3_600_000 }])
  await worker.start()
  await eventually(() => expect(completed).toEqual(['ü']))
  expect(await env.job(queue, 'ü')).toBeUndefined()
  expect(await env.job(queue, 'Ã¼')).toBeDefined()
})

test('R6: a handler that changes the row of its own job fails; what else is in the batch is done', async () => {
  const queue = env.transactional({
    retryIn: () => 3_600,
    batchSize: 2,
    perform: (batch, { tx }) =>
      batch.has('own') ? tx.query(`DELETE FROM lockstep.jobs WHERE id = 'own'`) : undefined,
  })
  const worker = env.create({ queues: [queue], slots: 1 })
  const failed = next(worker, 'failed')
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, [{ id: 'own' }, { id: 'other' }])
  await worker.start()
  expect(await failed).toMatchObject({ id: 'own', error: { message: expect.stringContaining('not held') } })
  expect(await completed).toMatchObject({ ids: ['other'] })
  expect(await env.job(queue, 'own')).toMatchObject({ retry_count: 0, claimed_by: null })
})

test('a handler may use savepoints', async () => {
  const queue = env.transactional({
    perform: async (batch, { tx }) => {
      await tx.query('SAVEPOINT before')
      await tx.query('SELECT 1 / 0').catch(() => tx.query('ROLLBACK TO before'))
      await write(batch, tx)
    },
  })
  const worker = await env.work({ queues: [queue] })
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'savepoint' })
  await completed
  expect(await written('savepoint')).toBe(1)
})

test('R16: a statement that runs at the timeout ends with it, and the round has failed', async () => {
  const queue = env.transactional({
    timeout: 100,
    retryIn: () => 3600,
    perform: async (batch, { tx }) => {
      await write(batch, tx)
      await tx.query('SELECT pg_sleep(600)')
    },
  })
  expect(await failureOf(queue)).toMatchObject({ error: expect.any(TimeoutError), retryCount: 0 })
  expect(await written('poor')).toBe(0)
})

test('a connection that goes silent holds a round no longer than its statements may take', {
  tags: 'slow',
  timeout: 60_000,
}, async () => {
  const { network, lockstep } = await env.distant()
  const gate = new Gate()
  const queue = env.transactional({ perform: () => gate.opened })
  const worker = env.create({ queues: [queue] }, lockstep)
  await worker.start()
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await started
  network.strand()
  const completed = next(worker, 'completed', () => true, 30_000)
  gate.open()
  // The released round is performed again on a new connection.
  await completed
})

test('P1: a transaction that begins after the lease has ended is not for the handler', {
  tags: 'slow',
}, async () => {
  const { network } = await env.distant()
  const performed: string[] = []
  const queue = env.transactional({ perform: () => void performed.push('the slow') })
  // Once, before the worker sends BEGIN to the server.
  let silence = () => network.silence()
  const instrument: Instrumentation = {
    claim:
      () =>
      ({ rounds }) => {
        if (rounds?.length) silence()
      },
  }
  const { logger } = env
  const { connectionString } = network
  const lockstep = new Lockstep({ connectionString, logger, instrumentation: [instrument] })
  env.later(() => lockstep.close())
  const slow = env.create({ queues: [queue], lease: 1_000 }, lockstep)
  await slow.start()
  const lost = next(slow, 'leaseLost')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await lost
  const other = defineQueue(queue.name, { perform: () => void performed.push('the other') })
  const worker = env.create({ queues: [other] })
  await Promise.all([next(worker, 'completed'), worker.start()])
  const again = next(slow, 'completed')
  silence = () => {}
  network.restore()
  await worker.stop()
  await env.lockstep.enqueue(queue, { id: 'b' })
  await again
  expect(performed).toEqual(['the other', 'the slow'])
})

test('R15: a round released at stop leaves no writes', async () => {
  const queue = env.transactional({
    perform: async (batch, { tx, signal }) => {
      await write(batch, tx)
      await aborted(signal)
      signal.throwIfAborted()
    },
  })
  const worker = await env.work({ queues: [queue], shutdownTimeout: 50 })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'stopped' })
  await started
  expect(await worker.stop()).toBe(true)
  expect(await written('stopped')).toBe(0)
  expect(await env.job(queue, 'stopped')).toMatchObject({ claimed_by: null, retry_count: -1, crashes: 0 })
})

async function failureOf(queue: ReturnType<typeof env.transactional>) {
  const worker = await env.work({ queues: [queue] })
  const failed = next(worker, 'failed')
  await env.lockstep.enqueue(queue, { id: 'poor' })
  return failed
}

/** Sessions that wait for another session's row. */
async function lockWaits(): Promise<number> {
  const rows = await env.sql(
    `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`,
  )
  return rows.length
}

type Tx = Parameters<TransactionalPerform>[1]['tx']

async function write(batch: Batch<unknown>, tx: Tx): Promise<void> {
  for (const [id, payloads] of batch) {
    for (const payload of payloads)
      await tx.query('INSERT INTO written (id, payload) VALUES ($1, $2)', [id, JSON.stringify(payload)])
  }
}

async function written(id: string): Promise<number> {
  const [row] = await env.sql<{ count: number }>('SELECT count(*)::int AS count FROM written WHERE id = $1', [
    id,
  ])
  return row!.count
}

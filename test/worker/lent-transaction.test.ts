import { beforeAll, expect, test } from 'vitest'
import { next, type TransactionalPerform, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

type Tx = Parameters<TransactionalPerform>[1]['tx']

beforeAll(async () => {
  await env.sql('CREATE TABLE written (id text)')
})

const write = (tx: Tx, ids: Iterable<string>) =>
  tx.query('INSERT INTO written SELECT unnest($1::text[])', [[...ids]])

const written = () => env.sql('SELECT id FROM written ORDER BY id')

test('P3: what is sent through a transaction that is over is refused, and meets nobody else’s', async () => {
  let late: Tx
  const isOver = { code: 'LOCKSTEP_TRANSACTION_OVER' }
  const queue = env.transactional({
    perform: async (batch, { tx }) => {
      if (batch.has('early')) late = tx
      else await expect(late.query('SELECT 1/0')).rejects.toMatchObject(isOver)
      await write(tx, batch.keys())
    },
  })
  const worker = await env.work({ queues: [queue], slots: 1 })
  for (const id of ['early', 'later']) {
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(queue, { id })
    await completed
  }
  const told = new Promise((resolve) => late.query('SELECT 1', resolve))
  expect(await told).toMatchObject(isOver)
  expect(await written()).toEqual([{ id: 'early' }, { id: 'later' }])
  await env.sql('DELETE FROM written')
})

// A function that releases the client it is given would hand the session to the next handler in the middle of the
// transaction.
test('P3: a handler can’t release the client of its transaction, nor end it', async () => {
  const told: unknown[] = []
  const queue = env.transactional({
    async perform(batch, { tx }) {
      const client = tx as Tx & { release(): void; end(): Promise<void> }
      try {
        client.release()
      } catch (error) {
        told.push(error)
      }
      await client.end().catch((error) => told.push(error))
      await write(tx, batch.keys())
    },
  })
  const worker = await env.work({ queues: [queue] })
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'kept' })
  await completed
  const isRefused = {
    code: 'LOCKSTEP_TRANSACTION_LENT',
    message: expect.stringContaining('release() and end() to the worker'),
  }
  expect(told).toMatchObject([isRefused, isRefused])
  expect(await written()).toEqual([{ id: 'kept' }])
})

const ENDS = [
  'BEGIN',
  ' start  transaction',
  '/* mine */ COMMIT',
  '-- mine\nend',
  'rollback',
  'ROLLBACK AND CHAIN',
  `PREPARE TRANSACTION 'mine'`,
  { text: 'begin isolation level serializable' },
]
const SAVEPOINTS = [
  'SAVEPOINT mine',
  'ROLLBACK TO mine',
  'rollback work to savepoint mine',
  'Rollback Transaction To mine',
  'RELEASE mine',
]

// A library that is given the client may begin and commit by itself, and so commit half of what the handler does.
test('P3: a handler can neither begin nor end its transaction, but has savepoints', async () => {
  const told: unknown[] = []
  const queue = env.transactional({
    async perform(batch, { tx }) {
      await write(tx, batch.keys())
      for (const end of ENDS) await tx.query(end as string).catch((error) => told.push(error))
      for (const savepoint of SAVEPOINTS) await tx.query(savepoint)
    },
  })
  const worker = await env.work({ queues: [queue] })
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'whole' })
  await completed
  expect(told).toMatchObject(ENDS.map(() => ({ code: 'LOCKSTEP_TRANSACTION_LENT' })))
  expect(await written()).toContainEqual({ id: 'whole' })
})

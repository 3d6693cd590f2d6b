import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import Fastify from 'fastify'
import pg from 'pg'
import { Lockstep } from 'pg-lockstep'
import {
  assertEnqueued,
  assertNotEnqueued,
  drain,
  startPostgres,
  type TestPostgres,
} from 'pg-lockstep/testing'
import { changeOrder, findOrder } from '../src/orders.ts'
import { orderChanges } from '../src/queues.ts'
import { routes } from '../src/routes.ts'
import { migrate } from '../src/tables.ts'
import { inTransaction } from '../src/transaction.ts'

let postgres: TestPostgres
let pool: pg.Pool
let lockstep: Lockstep
const app = Fastify()

before(async () => {
  postgres = await startPostgres()
  pool = new pg.Pool({ connectionString: postgres.connectionString })
  lockstep = new Lockstep({ pool })
  await migrate(pool, lockstep)
  await app.register(routes, { pool, lockstep })
})

after(async () => {
  await app.close()
  await lockstep.close()
  await pool.end()
  await postgres.stop()
})

const post = (payload: object) => app.inject({ method: 'POST', url: '/orders', payload })

test('changes that arrive out of order are performed in order', async () => {
  assert.equal((await post({ id: 'order-1', version: 2, status: 'paid' })).statusCode, 202)
  assert.equal((await post({ id: 'order-1', version: 1, status: 'created' })).statusCode, 202)
  await assertEnqueued(lockstep, orderChanges, { id: 'order-1', payload: { status: 'paid' }, score: 2 })

  await drain(lockstep, orderChanges)

  const { version, status, history } = (await app.inject('/orders/order-1')).json()
  assert.deepEqual({ version, status, history }, { version: 2, status: 'paid', history: ['created', 'paid'] })
})

test('a change that comes too late is not performed', async () => {
  await post({ id: 'order-2', version: 2, status: 'paid' })
  await drain(lockstep, orderChanges)
  await post({ id: 'order-2', version: 1, status: 'created' })
  await drain(lockstep, orderChanges)

  const { status, history } = (await app.inject('/orders/order-2')).json()
  assert.deepEqual({ status, history }, { status: 'paid', history: ['paid'] })
})

test('a transaction that is rolled back leaves neither order nor job', async () => {
  const failing = inTransaction(pool, async (tx) => {
    await changeOrder(tx, lockstep, 'order-3', { version: 1, status: 'created' })
    throw new Error('the card was refused')
  })
  await assert.rejects(failing, /refused/)

  assert.equal(await findOrder(pool, 'order-3'), undefined)
  await assertNotEnqueued(lockstep, orderChanges, { id: 'order-3' })
})

test('a bad request pushes nothing', async () => {
  assert.equal((await post({ id: 'order-4', version: 'first', status: 'created' })).statusCode, 400)
  await assertNotEnqueued(lockstep, orderChanges, { id: 'order-4' })
})

test('the health route tells whether the database answers', async () => {
  assert.equal((await app.inject('/health')).statusCode, 200)

  const nowhere = new pg.Pool({ host: '127.0.0.1', port: 1 })
  const cutOff = Fastify()
  await cutOff.register(routes, { pool: nowhere, lockstep })
  assert.equal((await cutOff.inject('/health')).statusCode, 503)
  await cutOff.close()
  await nowhere.end()
})

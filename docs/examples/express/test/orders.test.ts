import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { Lockstep } from 'pg-lockstep'
import {
  assertEnqueued,
  assertNotEnqueued,
  drain,
  startPostgres,
  type TestPostgres,
} from 'pg-lockstep/testing'
import { createApp } from '../src/app.ts'
import { changeOrder, findOrder, type Order } from '../src/orders.ts'
import { orderChanges } from '../src/queues.ts'
import { stop } from '../src/stop.ts'
import { migrate } from '../src/tables.ts'
import { inTransaction } from '../src/transaction.ts'

let postgres: TestPostgres
let pool: pg.Pool
let lockstep: Lockstep
let server: Server
let url: string

before(async () => {
  postgres = await startPostgres()
  pool = new pg.Pool({ connectionString: postgres.connectionString })
  lockstep = new Lockstep({ pool })
  await migrate(pool, lockstep)
  server = createApp({ pool, lockstep }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})

after(async () => {
  await stop({ server, lockstep, pool })
  await postgres.stop()
})

const get = async (path: string) => (await fetch(url + path)).json()
const getOrder = async (id: string) => (await get(`/orders/${id}`)) as Order
const post = (body: object) =>
  fetch(`${url}/orders`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

test('changes that arrive out of order are performed in order', async () => {
  assert.equal((await post({ id: 'order-1', version: 2, status: 'paid' })).status, 202)
  assert.equal((await post({ id: 'order-1', version: 1, status: 'created' })).status, 202)
  await assertEnqueued(lockstep, orderChanges, { id: 'order-1', payload: { status: 'paid' }, score: 2 })

  await drain(lockstep, orderChanges)

  const { version, status, history } = await getOrder('order-1')
  assert.deepEqual({ version, status, history }, { version: 2, status: 'paid', history: ['created', 'paid'] })
})

test('a change that comes too late is not performed', async () => {
  await post({ id: 'order-2', version: 2, status: 'paid' })
  await drain(lockstep, orderChanges)
  await post({ id: 'order-2', version: 1, status: 'created' })
  await drain(lockstep, orderChanges)

  const { status, history } = await getOrder('order-2')
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

test('a bad request is told what to correct, and pushes nothing', async () => {
  const response = await post({ id: 'order-4', version: 'first', status: 'created' })
  assert.equal(response.status, 400)
  assert.match(await response.text(), /version must be a whole number/)
  await assertNotEnqueued(lockstep, orderChanges, { id: 'order-4' })
})

test('the health route tells whether the database answers', async () => {
  assert.deepEqual(await get('/health'), { status: 'ok' })
})

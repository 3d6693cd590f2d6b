import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  assertEnqueued,
  assertNotEnqueued,
  drain,
  startPostgres,
  type TestPostgres,
} from 'pg-lockstep/testing'
import { GET as health } from '../app/health/route.ts'
import { GET } from '../app/orders/[id]/route.ts'
import { POST } from '../app/orders/route.ts'
import { changeOrder, findOrder } from '../lib/orders.ts'
import { orderChanges } from '../lib/queues.ts'
import { services } from '../lib/services.ts'
import { migrate } from '../lib/tables.ts'
import { inTransaction } from '../lib/transaction.ts'

let postgres: TestPostgres

before(async () => {
  postgres = await startPostgres()
  process.env.DATABASE_URL = postgres.connectionString
  const { pool, lockstep } = services()
  await migrate(pool, lockstep)
})

after(async () => {
  const { pool, lockstep } = services()
  await lockstep.close()
  await pool.end()
  await postgres.stop()
})

const post = (body: object) =>
  POST(new Request('http://localhost/orders', { method: 'POST', body: JSON.stringify(body) }))
const get = async (id: string) =>
  (await GET(new Request(`http://localhost/orders/${id}`), { params: Promise.resolve({ id }) })).json()

test('changes that arrive out of order are performed in order', async () => {
  const { lockstep } = services()
  assert.equal((await post({ id: 'order-1', version: 2, status: 'paid' })).status, 202)
  assert.equal((await post({ id: 'order-1', version: 1, status: 'created' })).status, 202)
  await assertEnqueued(lockstep, orderChanges, { id: 'order-1', payload: { status: 'paid' }, score: 2 })

  await drain(lockstep, orderChanges)

  const { version, status, history } = await get('order-1')
  assert.deepEqual({ version, status, history }, { version: 2, status: 'paid', history: ['created', 'paid'] })
})

test('a transaction that is rolled back leaves neither order nor job', async () => {
  const { pool, lockstep } = services()
  const failing = inTransaction(pool, async (tx) => {
    await changeOrder(tx, lockstep, 'order-2', { version: 1, status: 'created' })
    throw new Error('the card was refused')
  })
  await assert.rejects(failing, /refused/)

  assert.equal(await findOrder(pool, 'order-2'), undefined)
  await assertNotEnqueued(lockstep, orderChanges, { id: 'order-2' })
})

test('a bad request is told what to correct, and pushes nothing', async () => {
  const response = await post({ id: 'order-3', version: 'first', status: 'created' })
  assert.equal(response.status, 400)
  assert.match(await response.text(), /version must be a whole number/)
  await assertNotEnqueued(services().lockstep, orderChanges, { id: 'order-3' })
})

test('the health route answers', async () => {
  assert.equal((await health()).status, 200)
})

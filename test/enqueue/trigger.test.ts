import { beforeEach, expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { codeIn } from '../support/docs-code.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

/** As docs/sql.md has it. */
const [SETUP] = codeIn('docs/sql.md', 'In a trigger', 'sql') as [string]

interface Order {
  readonly id: number
  readonly status: string
  readonly version: number
}

beforeEach(async () => {
  await env.sql(`DROP TABLE IF EXISTS orders; DROP FUNCTION IF EXISTS push_order`)
  await env.sql(SETUP)
})

const insert = `INSERT INTO orders VALUES (17, 'created', 1)`
const waiting = () => env.sql(`SELECT id, payloads FROM lockstep.waiting WHERE queue = 'orders'`)

test('P4 the trigger of the docs makes a job if, and only if, the row is committed', async () => {
  const session = await env.session()
  await session.query(`BEGIN; ${insert}; ROLLBACK`)
  expect(await waiting()).toEqual([])
  await session.query(`BEGIN; ${insert}`)
  expect(await waiting()).toEqual([])
  await session.query('COMMIT')
  const payload = { id: 17, status: 'created', version: 1 }
  expect(await waiting()).toMatchObject([{ id: '17', payloads: [{ payload, score: 1 }] }])
  await env.sql('DELETE FROM lockstep.jobs')
})

test('P2 versions that two sessions write out of order reach the handler in order', async () => {
  const handed: (readonly Order[])[] = []
  const queue = defineQueue<Order>('orders', {
    perform(batch) {
      for (const [, orders] of batch) handed.push(orders)
    },
  })
  const [one, other] = [await env.session(), await env.session()]
  await one.query(`BEGIN; INSERT INTO orders VALUES (17, 'paid', 2)`)
  const later = other.query(`INSERT INTO orders VALUES (17, 'created', 1)
    ON CONFLICT (id) DO UPDATE SET status = excluded.status, version = excluded.version`)
  await one.query(`UPDATE orders SET status = 'sent', version = 3; COMMIT`)
  await later
  await env.work({ queues: [queue] })
  await eventually(() => expect(handed.flat().length).toBe(3))
  expect(handed).toEqual([
    [
      { id: 17, status: 'created', version: 1 },
      { id: 17, status: 'paid', version: 2 },
      { id: 17, status: 'sent', version: 3 },
    ],
  ])
})

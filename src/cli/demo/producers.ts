import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Duty } from './duty.ts'
import { type Delivery, planFeed, type Update } from './feed.ts'
import { write } from './logbook.ts'
import { openLockstep, orders } from './ordered.ts'
import { SENDING_LIMIT, sendingTime } from './pace.ts'
import { millis, SHOP_SCHEMA } from './shop.ts'

export const PRODUCERS = 4

type Send = (client: pg.ClientBase, updates: readonly Update[]) => Promise<unknown>

/** Plays the outside system: several producers that share a feed and keep its pace. */
export async function sendFeed({ naive, connectionString, events }: Duty): Promise<void> {
  const lockstep = openLockstep(connectionString)
  const sendInOrder: Send = (client, updates) => lockstep.enqueue(orders, updates.map(toJob), { tx: client })
  const feed = new Feed(planFeed(events), sendingTime(events))
  const send = naive ? sendNaively : sendInOrder
  await Promise.all(Array.from({ length: PRODUCERS }, () => produce(connectionString, feed, send)))
  await lockstep.close()
}

/** Hands out each delivery at its time. */
class Feed {
  readonly #deliveries: readonly Delivery[]
  readonly #duration: number
  readonly #startedAt = performance.now()
  #next = 0

  constructor(deliveries: readonly Delivery[], duration: number) {
    this.#deliveries = deliveries
    this.#duration = duration
  }

  async next(): Promise<Delivery | undefined> {
    const delivery = this.#deliveries[this.#next]
    const due = (this.#next / this.#deliveries.length) * this.#duration
    this.#next += 1
    const elapsed = performance.now() - this.#startedAt
    if (elapsed > SENDING_LIMIT) return undefined
    if (delivery && due > elapsed) await sleep(due - elapsed)
    return delivery
  }
}

async function produce(connectionString: string, feed: Feed, send: Send): Promise<void> {
  const client = new pg.Client(connectionString)
  await client.connect()
  for (let delivery = await feed.next(); delivery; delivery = await feed.next())
    await make(client, delivery, send)
  await client.end()
}

/** Writes the domain's rows and the queue's in one transaction: both exist, or neither. */
async function make(client: pg.Client, { updates, rollBack }: Delivery, send: Send): Promise<void> {
  await client.query('BEGIN')
  await client.query(
    `INSERT INTO ${SHOP_SCHEMA}.orders AS o
     SELECT u.order_id, count(*), max(u.version) FROM unnest($1::text[], $2::integer[]) AS u(order_id, version)
     GROUP BY u.order_id ORDER BY u.order_id
     ON CONFLICT (order_id) DO UPDATE
     SET updates = o.updates + excluded.updates, newest = greatest(o.newest, excluded.newest)`,
    [updates.map(({ order }) => order), updates.map(({ version }) => version)],
  )
  await send(client, updates)
  if (rollBack) {
    await client.query('ROLLBACK')
    write({ kind: 'rolledBack', updates })
    return
  }
  // Read after the commit, in the same round trip. A worker that takes the order later must get the update.
  const results = (await client.query(`COMMIT; SELECT ${millis('clock_timestamp()')} AS now`)) as unknown
  write({ kind: 'sent', updates, committedAt: (results as pg.QueryResult[])[1]!.rows[0].now })
}

function toJob(update: Update) {
  return { id: update.order, payload: update, score: update.version }
}

function sendNaively(client: pg.ClientBase, updates: readonly Update[]): Promise<unknown> {
  return client.query(`INSERT INTO ${SHOP_SCHEMA}.jobs (payload) SELECT jsonb_array_elements($1::jsonb)`, [
    JSON.stringify(updates),
  ])
}

import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientBase } from 'pg'
import type { Update } from './feed.ts'
import { SHOP_SCHEMA } from './shop.ts'

/** The updates of one order that a handler got. `takenAt`: when it was taken from the queue, in ms by the server's clock. */
export interface Taken {
  readonly order: string
  readonly takenAt: number
  readonly updates: readonly Update[]
}

/** ms; the handler's real work is simulated. */
const SHORTEST_WORK = 2
const LONGEST_WORK = 6

/**
 * The handler of both queues reads the state of the order, works, and writes the new state. It is written as if no
 * other handler had the order. An update older than the state arrived late from outside, and is not written.
 */
export async function applyUpdates(tx: ClientBase, run: string, taken: readonly Taken[]): Promise<void> {
  const versions = await readVersions(tx, taken)
  await sleep(SHORTEST_WORK + Math.random() * (LONGEST_WORK - SHORTEST_WORK))
  await note(tx, run, taken)
  const news = taken
    .map(({ order, updates }) => ({ order, version: Math.max(...updates.map(({ version }) => version)) }))
    .filter(({ order, version }) => version > (versions.get(order) ?? 0))
  await tx.query(
    `INSERT INTO ${SHOP_SCHEMA}.shipments SELECT * FROM unnest($1::text[], $2::integer[])
     ON CONFLICT (order_id) DO UPDATE SET version = excluded.version`,
    [news.map(({ order }) => order), news.map(({ version }) => version)],
  )
}

async function readVersions(tx: ClientBase, taken: readonly Taken[]): Promise<Map<string, number>> {
  const { rows } = await tx.query(
    `SELECT order_id, version FROM ${SHOP_SCHEMA}.shipments WHERE order_id = ANY ($1)`,
    [taken.map(({ order }) => order)],
  )
  return new Map(rows.map((row) => [row.order_id, row.version]))
}

/** Notes each update for the judge, in the order in which the handler got them. */
async function note(tx: ClientBase, run: string, taken: readonly Taken[]): Promise<void> {
  const notes = taken.flatMap(({ updates, takenAt }) => updates.map((update) => ({ ...update, takenAt })))
  await tx.query(
    `INSERT INTO ${SHOP_SCHEMA}.applied (order_id, version, run, taken_at)
     SELECT n.order_id, n.version, $1, n.taken_at
     FROM unnest($2::text[], $3::integer[], $4::float8[]) WITH ORDINALITY AS n(order_id, version, taken_at, place)
     ORDER BY n.place`,
    [
      run,
      notes.map(({ order }) => order),
      notes.map(({ version }) => version),
      notes.map(({ takenAt }) => takenAt),
    ],
  )
}

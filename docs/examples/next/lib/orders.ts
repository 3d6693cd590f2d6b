import type { Pool, PoolClient } from 'pg'
import type { Lockstep } from 'pg-lockstep'
import { type OrderChange, orderChanges } from './queues.ts'

export interface Order {
  readonly id: string
  readonly version: number
  readonly status: string
  /** The statuses that the worker has performed, in this order. */
  readonly history: readonly string[]
}

/** Stores a change of an order and pushes its job. Both exist if and only if the transaction of `tx` commits. */
export async function changeOrder(
  tx: PoolClient,
  lockstep: Lockstep,
  id: string,
  change: OrderChange,
): Promise<void> {
  await tx.query(
    `INSERT INTO orders (id, version, status) VALUES ($1, $2, $3)
     ON CONFLICT (id) DO UPDATE SET version = excluded.version, status = excluded.status
     WHERE orders.version < excluded.version`,
    [id, change.version, change.status],
  )
  await lockstep.enqueue(orderChanges, { id, payload: change, score: change.version }, { tx })
}

export async function findOrder(pool: Pool, id: string): Promise<Order | undefined> {
  const { rows } = await pool.query<Order>('SELECT id, version, status, history FROM orders WHERE id = $1', [
    id,
  ])
  return rows[0]
}

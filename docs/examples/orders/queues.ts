// Changes of orders, told to another system one order at a time, in order, while orders run side by side.
//
//   lockstep migrate
//   psql -c $'SELECT lockstep.create_queue(\'orders\'), lockstep.enqueue(\'orders\', \'order-1\', \'{"status": "paid"}\')'
//   WAREHOUSE_URL=http://localhost:8080 lockstep work -r docs/examples/orders/queues.ts

import { defineQueue } from 'pg-lockstep'

export interface OrderChange {
  readonly status: 'paid' | 'packed' | 'sent' | 'cancelled'
}

export const orders = defineQueue<OrderChange>('orders', {
  shards: 24,
  maxRetryCount: 10,
  timeout: 30_000,

  /** May run again after a crash, so the warehouse has to take the same status twice. */
  async perform(batch, { signal }) {
    for (const [id, changes] of batch) {
      for (const { status } of changes) await tellWarehouse(id, status, signal)
    }
  },
})

async function tellWarehouse(id: string, status: string, signal: AbortSignal): Promise<void> {
  const url = new URL(`/orders/${encodeURIComponent(id)}`, process.env.WAREHOUSE_URL)
  const response = await fetch(url, { method: 'PUT', body: JSON.stringify({ status }), signal })
  if (!response.ok) throw new Error(`the warehouse answered ${response.status}`)
}

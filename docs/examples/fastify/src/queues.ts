// Shared by the server, which pushes, and the worker, which performs: both have the same name, types and settings.

import { defineQueue } from 'pg-lockstep'

export interface OrderChange {
  /** Counted by whoever sends the changes, so that their order is known however they arrive. */
  readonly version: number
  readonly status: string
}

export const orderChanges = defineQueue<OrderChange>('order-changes', {
  // What the handler writes, and that the job is done, is committed together.
  transactional: true,
  batchSize: 10,
  maxRetryCount: 10,
  timeout: 30_000,

  async perform(batch, { tx }) {
    for (const [orderId, changes] of batch) {
      for (const { version, status } of changes) {
        // A change that arrives after a later one was performed must not undo that.
        await tx.query(
          `UPDATE orders SET history = array_append(history, $2), performed_version = $3
           WHERE id = $1 AND performed_version < $3`,
          [orderId, status, version],
        )
      }
    }
  },
})

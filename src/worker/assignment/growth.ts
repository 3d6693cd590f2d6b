import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { requireLockRoom } from '../../postgres/lock-room.ts'
import { growQueue, listQueues } from '../../store/queue.ts'
import { notify, REBALANCE } from '../../store/wake.ts'
import type { ServedQueue } from '../schedule/served-queue.ts'

/**
 * Grows the queues whose definitions name more shards than they have. A definition that names fewer is logged, and changes
 * nothing: otherwise an old and a new deployment would each undo what the other did. One that names none changes nothing
 * either.
 * @throws DatabaseError `LOCKSTEP_TOO_MANY_LOCKS` if there would be no room to lock all shards; nothing has grown
 */
export async function growQueues(
  database: Database,
  served: readonly ServedQueue[],
  logger: Logger,
): Promise<void> {
  const rows = await listQueues(
    database,
    served.map(({ queue }) => queue.name),
  )
  const sizes = rows.map(({ queueId, name, shards }) => {
    const definition = served.find((one) => one.queueId === queueId)?.queue
    return { queueId, name, shards, defined: definition?.namedShards ?? shards }
  })
  const most = sizes.reduce((sum, { shards, defined }) => sum + Math.max(shards, defined), 0)
  // One lock per shard, whether one process holds them all or many do. And one for the process itself, and a flag per
  // queue.
  await requireLockRoom(database, most + rows.length + 1, logger)
  let grown = false
  for (const { queueId, name, shards, defined } of sizes) {
    if (defined < shards)
      logger.warn(
        { queue: name, shards, defined },
        'the queue has more shards than its definition: see `reshard`',
      )
    if (defined <= shards || !(await growQueue(database, queueId, defined))) continue
    logger.info(
      { queue: name, was: shards, shards: defined },
      `the queue grew to its definition's ${defined} shards`,
    )
    grown = true
  }
  // If the process dies before this, others find out at their next comparison.
  if (grown) await notify(database, REBALANCE)
}

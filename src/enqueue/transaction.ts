import type { ClientBase } from 'pg'
import { openTransactionOf } from '../adapters/all.ts'
import type { EnqueueTransaction } from '../adapters/enqueue-transaction.ts'
import { LockstepError } from '../errors.ts'
import { Joined } from './joined.ts'

/** @throws LockstepError `LOCKSTEP_BAD_TRANSACTION` if `tx` can't run statements in a transaction */
export function joinTransaction(tx: EnqueueTransaction | undefined): Joined {
  if (tx === undefined)
    throw bad('`tx` is undefined: pass the transaction, or omit the key to push without one')
  const open = openTransactionOf(tx)
  if (typeof open === 'string') throw bad(`\`tx\` ${open}`)
  return new Joined(open)
}

/**
 * The `pg` client of a transaction, which some libraries show.
 * @throws LockstepError `LOCKSTEP_BAD_TRANSACTION`
 */
export function clientOf(tx: EnqueueTransaction | undefined): ClientBase {
  const { client, given } = joinTransaction(tx)
  if (client) return client as ClientBase
  throw bad(
    `\`tx\`, ${given}, does not show its \`pg\` client, which is needed here: pass a pg client, or a transaction of Drizzle on node-postgres, Sequelize or TypeORM`,
  )
}

/** BEGIN was never sent, or COMMIT or ROLLBACK was sent before all jobs of the call were pushed. */
export function notInTransaction(given: string, cause?: unknown): LockstepError {
  return bad(
    `\`tx\`, ${given}, is in no transaction, or no longer in the one it was in when the call began: pass an open transaction and await the call before it commits or rolls back, or omit \`tx\` to push without one`,
    cause,
  )
}

function bad(message: string, cause?: unknown): LockstepError {
  return new LockstepError('LOCKSTEP_BAD_TRANSACTION', message, { cause })
}

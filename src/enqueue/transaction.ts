import type { ClientBase } from 'pg'
import type { Wording } from '../adapters/adapter.ts'
import { openTransactionOf } from '../adapters/all.ts'
import type { EnqueueTransaction } from '../adapters/enqueue-transaction.ts'
import { LockstepError } from '../errors.ts'
import { ThroughClient } from '../store/through-client.ts'
import { Joined } from './joined.ts'

/** @throws LockstepError `LOCKSTEP_BAD_TRANSACTION` if `tx` can't run statements in a transaction */
export function joinTransaction(tx: EnqueueTransaction | undefined): Joined {
  if (tx === undefined)
    throw bad('`tx` is undefined: pass the transaction, or omit the key to do without one')
  const open = openTransactionOf(tx)
  if (typeof open === 'string') throw bad(`\`tx\` ${open}`)
  return new Joined(open)
}

/**
 * What runs our own statements in a transaction: its `pg` client if the library shows it, or what stands in for one. That
 * takes texts alone, so it also does for a client whose results come in binary.
 */
export function clientIn(transaction: Joined): ClientBase {
  const { client } = transaction
  const isTextual = client !== undefined && (client as { binary?: unknown }).binary !== true
  return (isTextual ? client : new ThroughClient(transaction)) as ClientBase
}

/** BEGIN was never sent, or COMMIT or ROLLBACK was sent before the call had done all that it does. */
export function notInTransaction({ given, ended }: Wording, cause?: unknown): LockstepError {
  if (ended !== undefined) return bad(`\`tx\` ${ended}`, cause)
  return bad(
    `\`tx\`, ${given}, is in no transaction, or no longer in the one it was in when the call began: pass an open transaction and await the call before it commits or rolls back, or omit \`tx\` to do without one`,
    cause,
  )
}

export function readOnly({ given, writable }: Wording, cause: unknown): LockstepError {
  return bad(`\`tx\`, ${given}, is READ ONLY: ${writable}`, cause)
}

function bad(message: string, cause?: unknown): LockstepError {
  return new LockstepError('LOCKSTEP_BAD_TRANSACTION', message, { cause })
}

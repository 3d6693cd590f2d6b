import type { Entered } from '../enqueue/entered.ts'
import { LockstepError } from '../errors.ts'
import type { Queue } from '../queue.ts'
import { beginRound, newName } from '../store/handler-transaction.ts'
import type { Lender } from '../worker/performing/lent-transaction.ts'

/** Handlers work in the caller's transaction, each between two savepoints. */
export class JoinedLender implements Lender {
  readonly #entered: Entered
  readonly #tx: unknown

  constructor(entered: Entered, tx: unknown) {
    this.#entered = entered
    this.#tx = tx
  }

  lend: Lender['lend'] = (queue, work) => {
    const { joined, database } = this.#entered
    const name = newName()
    const tx = queue.transactions ? this.#tx : joined.client
    const lent = { name, tx, on: joined, lost: undefined, abort() {}, end() {} }
    return database.transaction(() => work(lent), { begin: beginRound(name) })
  }
}

/**
 * Handlers must get what they were written for.
 * @throws LockstepError `LOCKSTEP_BAD_TRANSACTION`
 */
export function requireFitting({ joined }: Entered, { name, transactional, transactions }: Queue): void {
  const { client, given } = joined
  const bad = (problem: string) =>
    new LockstepError('LOCKSTEP_BAD_TRANSACTION', `handlers of the queue "${name}" get ${problem}`)
  if (transactional && !transactions && !client)
    throw bad(
      `a pg client, which \`tx\`, ${given}, does not show: pass the queue \`transactional: transactionsOf(db)\` of your library, or drain a pg client`,
    )
  if (transactions?.given !== undefined && transactions.given !== given)
    throw bad(
      `${transactions.given}, and \`tx\` is ${given}: drain one of the same library, or without \`tx\``,
    )
}

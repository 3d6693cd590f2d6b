import { openTransactionOf } from '../../adapters/all.ts'
import { LockstepError } from '../../errors.ts'
import type { Database } from '../../postgres/database.ts'
import type { Transactions } from '../../queue.ts'
import { type Begun, cancel, nameRound, requireTransaction } from '../../store/handler-transaction.ts'
import { findHome } from '../../store/home.ts'
import type { Through } from '../../store/through.ts'
import type { LentTransaction } from './lent-transaction.ts'

/** ms between attempts to cancel what an aborted handler has sent. */
const CANCEL_PAUSE = 1_000

/** Runs handlers in transactions of the application's. */
export class ApplicationTransactions {
  /** For statements of our own beside those transactions. */
  readonly #database: Database
  readonly #checked = new WeakSet<Transactions<unknown>>()

  constructor(database: Database) {
    this.#database = database
  }

  /**
   * Runs `work` in one, with the name of its round. What `work` rejects with is what this rejects with, whatever the library
   * makes of it.
   */
  async run<T>(
    transactions: Transactions<unknown>,
    name: string,
    work: (lent: LentTransaction) => Promise<T>,
  ): Promise<T> {
    let worked: Promise<T> | undefined
    const lend = async (tx: unknown) => {
      if (worked) throw new Error('a transaction of `transactional` ran its work twice')
      const on = through(tx)
      if (!this.#checked.has(transactions)) await this.#check(transactions, on)
      const begun = await nameRound(on, name)
      requireReadCommitted(begun)
      worked = work(new Lent(this.#database, tx, on, begun))
      await worked
    }
    try {
      await transactions.transaction(lend)
    } catch (error) {
      if (worked) await worked
      throw error
    }
    if (!worked) throw new Error('a transaction of `transactional` did not run its work')
    return worked
  }

  /** They are all alike, so the first one is checked, before anything is done in it. */
  async #check(transactions: Transactions<unknown>, on: Through): Promise<void> {
    await requireTransaction(this.#database, on, await findHome(this.#database))
    this.#checked.add(transactions)
  }
}

function through(tx: unknown): Through {
  const open = openTransactionOf(tx)
  if (typeof open !== 'string') return open
  throw new LockstepError('LOCKSTEP_BAD_TRANSACTION', `what \`transactional\` gives its work ${open}`)
}

/** The protocol reads in a later statement what others committed after an earlier one. */
function requireReadCommitted({ isolation }: Begun): void {
  if (isolation === 'read committed') return
  throw new LockstepError(
    'LOCKSTEP_ISOLATION',
    `the transactions of \`transactional\` must be READ COMMITTED, not ${isolation.toUpperCase()}: give them that isolation level`,
  )
}

class Lent implements LentTransaction {
  readonly tx: unknown
  readonly on: Through
  /** The connection is the library's. */
  readonly lost = undefined
  readonly #database: Database
  readonly #begun: Begun
  #canceling: NodeJS.Timeout | undefined

  constructor(database: Database, tx: unknown, on: Through, begun: Begun) {
    this.#database = database
    this.tx = tx
    this.on = on
    this.#begun = begun
  }

  /**
   * The session may be one of a pool that does not survive the end of a connection, so only statements are canceled: the one
   * under way, and those that follow until the handler ends.
   */
  abort(): void {
    const attempt = () => void cancel(this.#database, this.#begun).catch(() => {})
    attempt()
    this.#canceling ??= setInterval(attempt, CANCEL_PAUSE)
  }

  end(): void {
    clearInterval(this.#canceling)
  }
}

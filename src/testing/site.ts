import type { ClientBase } from 'pg'
import type { Joined } from '../enqueue/joined.ts'
import { clientIn, joinTransaction } from '../enqueue/transaction.ts'
import { LockstepError } from '../errors.ts'
import { homeOf, type Lockstep, type LookOptions } from '../lockstep.ts'
import type { Database } from '../postgres/database.ts'
import { TransactionDatabase } from '../postgres/transaction-database.ts'
import type { Queue } from '../queue.ts'
import { beginRound, newName } from '../store/handler-transaction.ts'
import { readLockTimeout } from '../store/patience.ts'
import type { Lender } from '../worker/performing/lent-transaction.ts'
import { WorkerLender } from '../worker/performing/worker-lender.ts'
import { Pools } from '../worker/pools.ts'

/** Where a drain works: on connections of its own, or in the caller's transaction. */
export interface Site {
  readonly database: Database
  readonly lender: Lender
  /** The caller's transaction; undefined on own connections. */
  readonly client: ClientBase | undefined
  /** ms that storing waits for a locked row at once. */
  readonly lockTimeout: number
  end(): Promise<void>
}

export async function openSite(lockstep: Lockstep, options: LookOptions): Promise<Site> {
  const home = homeOf(lockstep)
  if ('tx' in options) {
    const { tx } = options
    const joined = joinTransaction(tx)
    const client = clientIn(joined)
    const database = new TransactionDatabase(client, home.schema)
    const lockTimeout = await readLockTimeout(database)
    return { database, lender: new JoinedLender(database, joined, tx), client, lockTimeout, async end() {} }
  }
  const pools = new Pools(1, home)
  const lender = new WorkerLender(pools.own, pools.handlers, home.logger)
  try {
    const lockTimeout = await readLockTimeout(pools.own)
    return { database: pools.own, lender, client: undefined, lockTimeout, end: () => pools.end() }
  } catch (error) {
    await pools.end()
    throw error
  }
}

/** Handlers work in the caller's transaction, each between two savepoints. */
class JoinedLender implements Lender {
  readonly #database: TransactionDatabase
  readonly #joined: Joined
  readonly #tx: unknown

  constructor(database: TransactionDatabase, joined: Joined, tx: unknown) {
    this.#database = database
    this.#joined = joined
    this.#tx = tx
  }

  lend: Lender['lend'] = async (queue, work) => {
    const name = newName()
    const tx = queue.transactions ? this.#tx : this.#clientFor(queue)
    const lent = { name, tx, on: this.#joined, lost: undefined, abort() {}, end() {} }
    return this.#database.transaction(() => work(lent), { begin: beginRound(name) })
  }

  #clientFor({ name }: Queue): unknown {
    const { client, given } = this.#joined
    if (client) return client
    throw new LockstepError(
      'LOCKSTEP_BAD_TRANSACTION',
      `handlers of the queue "${name}" get a pg client, which \`tx\`, ${given}, does not show: pass the queue \`transactional: transactionsOf(db)\` of your library, or drain a pg client`,
    )
  }
}

import type { ClientBase } from 'pg'
import { clientOf } from '../enqueue/transaction.ts'
import { homeOf, type Lockstep, type LookOptions } from '../lockstep.ts'
import type { Database } from '../postgres/database.ts'
import { TransactionDatabase } from '../postgres/transaction-database.ts'
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
    const client = clientOf(tx)
    const database = new TransactionDatabase(client, home.schema)
    const lockTimeout = await readLockTimeout(database)
    return { database, lender: new JoinedLender(database, client, tx), client, lockTimeout, async end() {} }
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
  readonly #client: ClientBase
  readonly #tx: unknown

  constructor(database: TransactionDatabase, client: ClientBase, tx: unknown) {
    this.#database = database
    this.#client = client
    this.#tx = tx
  }

  lend: Lender['lend'] = ({ transactions }, work) => {
    const name = newName()
    const lent = {
      name,
      tx: transactions ? this.#tx : this.#client,
      on: {
        casts: 'none' as const,
        run: (text: string, values: readonly (string | null)[]) => this.#database.query(text, [...values]),
      },
      lost: undefined,
      abort() {},
      end() {},
    }
    return this.#database.transaction(() => work(lent), { begin: beginRound(name) })
  }
}

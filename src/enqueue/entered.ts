import type { ClientBase } from 'pg'
import type { EnqueueTransaction } from '../adapters/enqueue-transaction.ts'
import type { Database } from '../postgres/database.ts'
import { TransactionDatabase } from '../postgres/transaction-database.ts'
import { requireTransaction } from '../store/handler-transaction.ts'
import { findHome, isSameHome, requireOpen } from '../store/home.ts'
import type { Joined } from './joined.ts'
import type { KnownHome } from './known-home.ts'
import { clientIn, joinTransaction } from './transaction.ts'
import { toElsewhere, toWrongTransaction } from './wrong-transaction.ts'

/** A caller's transaction that is open, in the database of its Lockstep. */
export interface Entered {
  readonly joined: Joined
  /** What runs our own statements in it. */
  readonly client: ClientBase
  readonly database: TransactionDatabase
}

/** What a call does there. To `look`, a transaction may be READ ONLY. */
export type Purpose = 'look' | 'change'

/**
 * Asks the server, before the call does anything: outside of a transaction each of its statements would be committed by
 * itself, and elsewhere it would do what it does to another database.
 * @throws LockstepError `LOCKSTEP_BAD_TRANSACTION`
 */
export async function enter(
  tx: EnqueueTransaction | undefined,
  purpose: Purpose,
  own: Database,
  known: KnownHome,
): Promise<Entered> {
  const joined = joinTransaction(tx)
  const client = clientIn(joined)
  const entered = { joined, client, database: new TransactionDatabase(client, own.schema) }
  const home = await known.find()
  try {
    if (purpose === 'look') await requireLook(entered, known)
    else await requireTransaction(own, joined, home)
  } catch (error) {
    throw await toWrongTransaction(error, joined, known)
  }
  return entered
}

async function requireLook({ joined, database }: Entered, known: KnownHome): Promise<void> {
  await requireOpen(database, joined)
  const [home, there] = [known.known, await findHome(database)]
  if (home === undefined || isSameHome(home, there)) return
  const problem = `the transaction is in database "${there.database}" on ${there.address}, not in that of its Lockstep`
  throw await toElsewhere(new Error(problem), known)
}

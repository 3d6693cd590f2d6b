import { EventEmitter } from 'node:events'
import type { OpenTransaction } from '../../adapters/adapter.ts'
import { openTransactionOf } from '../../adapters/all.ts'
import { DatabaseError, LockstepError, summaryOf } from '../../errors.ts'
import type { Transactions } from '../../handler.ts'
import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import { hasCode } from '../../postgres/failure.ts'
import { IDLE_TIMEOUT } from '../../postgres/session.ts'
import { ignoreRejection, settlesWithin } from '../../promises.ts'
import {
  type Begun,
  cancel,
  nameRound,
  newName,
  requireTransaction,
  stateOf,
} from '../../store/handler-transaction.ts'
import { findHome, type Home } from '../../store/home.ts'
import type { Through } from '../../store/through.ts'
import type { LentTransaction } from './lent-transaction.ts'
import type { Abort } from './perform.ts'
import { keepTransaction } from './transaction-control.ts'

/** ms between attempts to cancel what an aborted handler has sent. */
const CANCEL_PAUSE = 1_000

/** ms that an application's library may take. Whatever has no answer by then will hardly get one. */
export interface Patience {
  readonly begin: number
  /** After so long without an answer, the server is asked each time what has become of a COMMIT. */
  readonly look: number
  /** The server itself ends a transaction that idles for `IDLE_TIMEOUT`, once its jobs are completed. */
  readonly commit: number
  readonly rollback: number
}

const PATIENCE: Patience = {
  begin: 10_000,
  look: 5_000,
  commit: IDLE_TIMEOUT + 15_000,
  rollback: 10_000,
}

type Work<T> = (lent: LentTransaction) => Promise<T>

/** Runs handlers in transactions of the application's. */
export class ApplicationTransactions {
  /** For statements of our own beside those transactions. */
  readonly #database: Database
  readonly #logger: Logger
  readonly #patience: Patience
  readonly #checked = new WeakSet<Transactions<unknown>>()

  constructor(database: Database, logger: Logger, patience = PATIENCE) {
    this.#database = database
    this.#logger = logger
    this.#patience = patience
  }

  /**
   * Runs `work` in one. What `work` rejects with is what this rejects with, whatever the library
   * makes of it. Gives up a transaction that does not begin, or that `abort` comes before: nothing is performed in it later.
   */
  async run<T>(transactions: Transactions<unknown>, work: Work<T>, abort: Abort): Promise<T> {
    // Asked before one begins: those of all slots may hold every connection that a pooler has for the worker, too.
    const home = this.#checked.has(transactions) ? undefined : await findHome(this.#database)
    const lending = new Lending(work, (tx) => this.#begin(transactions, tx, home))
    const ended = lending.through(transactions)
    const { begin, rollback } = this.#patience
    try {
      if (!(await settlesWithin(Promise.race([lending.begun, ended]), begin, abort.signal))) {
        lending.giveUp()
        throw new Error(UNBEGUN)
      }
      const { worked } = lending
      if (!worked) return await ended.then(() => Promise.reject(new Error(UNRUN)))
      if (!(await settles(worked))) await settlesWithin(ended, rollback)
      const result = await worked
      const { number } = lending.lent!
      const error = (await this.#isAnswered(ended, number!))
        ? await errorOf(ended)
        : new DatabaseError('LOCKSTEP_CONNECTION', UNANSWERED)
      await this.#requireCommit(number!, error)
      return result
    } finally {
      lending.lent?.close()
    }
  }

  /** They are all alike, so only the first one is checked to be in `home`, before anything is done in it. */
  async #begin(transactions: Transactions<unknown>, tx: unknown, home: Home | undefined): Promise<Lent> {
    const open = openTransactionOf(tx)
    if (typeof open === 'string') throw bad(`what \`transactional\` gives its work ${open}`)
    if (home) {
      await requireTransaction(this.#database, open, home).catch((error) => {
        throw toTold(error, open)
      })
      this.#checked.add(transactions)
    }
    const name = newName()
    const begun = await nameRound(open, name)
    requireFitting(begun)
    const client = open.client ?? (await open.connection?.())
    return new Lent(this.#database, { tx, open, name, client }, begun)
  }

  /** Whether the library answers, until the transaction has ended. */
  async #isAnswered(ended: Promise<unknown>, transaction: string): Promise<boolean> {
    const { look, commit } = this.#patience
    for (let waited = 0; waited < commit; waited += look) {
      if (await settlesWithin(ended, look)) return true
      if ((await stateOf(this.#database, transaction)) !== 'in progress') return false
    }
    return false
  }

  /**
   * The server decides, whatever the library says. It answers a COMMIT without an error though a statement has failed after
   * ours: one that the handler did not await, and whose error no one has heard. The claim would be ours for as long as the
   * process lives. And a library may reject after the COMMIT, if a hook of it fails.
   */
  async #requireCommit(transaction: string, error: Error | undefined): Promise<void> {
    const state = await stateOf(this.#database, transaction)
    if (state === 'in progress') throw new DatabaseError('LOCKSTEP_CONNECTION', UNANSWERED, { cause: error })
    if (state !== 'committed') throw error ?? new Error(UNCOMMITTED)
    if (!error) return
    const fields = { error: summaryOf(error) }
    this.#logger.warn(fields, 'a handler’s transaction was committed, but its library has failed afterwards')
  }
}

const UNBEGUN =
  'a transaction of `transactional` does not begin: its pool has no connection left, or its library hangs'
const UNRUN = 'a transaction of `transactional` did not run its work'
const UNANSWERED = 'the COMMIT of a handler’s transaction is not answered'
const UNCOMMITTED =
  'the handler’s transaction was not committed, though its library says so: await everything that is sent through `context.tx`'

/** One transaction, from the call of the library until it ends. */
class Lending<T> {
  /** Resolves when the work has begun. */
  readonly begun: Promise<void>
  worked: Promise<T> | undefined
  lent: Lent | undefined
  readonly #work: Work<T>
  readonly #begin: (tx: unknown) => Promise<Lent>
  #noteBegun!: () => void
  #isLate = false

  constructor(work: Work<T>, begin: (tx: unknown) => Promise<Lent>) {
    this.#work = work
    this.#begin = begin
    this.begun = new Promise((resolve) => {
      this.#noteBegun = resolve
    })
  }

  through(transactions: Transactions<unknown>): Promise<unknown> {
    const ended = (async () => transactions.transaction((tx) => this.#lend(tx)))()
    ignoreRejection(ended)
    return ended
  }

  giveUp(): void {
    this.#isLate = true
  }

  async #lend(tx: unknown): Promise<void> {
    const lent = await this.#begin(tx)
    // It rolls back.
    if (this.#isLate) throw new Error('the transaction began too late: its jobs are performed in another one')
    if (this.worked) throw new Error('a transaction of `transactional` ran its work twice')
    this.lent = lent
    lent.keep()
    this.worked = this.#work(lent)
    ignoreRejection(this.worked)
    this.#noteBegun()
    // From here on, the library ends it.
    await this.worked.finally(() => lent.end())
  }
}

function settles(promise: Promise<unknown>): Promise<boolean> {
  return promise.then(
    () => true,
    () => false,
  )
}

function errorOf(ended: Promise<unknown>): Promise<Error | undefined> {
  return ended.then(
    () => undefined,
    (error) => (error instanceof Error ? error : new Error(String(error))),
  )
}

function bad(message: string): LockstepError {
  return new LockstepError('LOCKSTEP_BAD_TRANSACTION', message)
}

/** Without the server's error as its cause: the log would say the same three times. */
function toTold(error: unknown, { given, writable }: OpenTransaction): unknown {
  if (!hasCode(error, 'LK024')) return error
  return bad(`what \`transactional\` gives its work, ${given}, is READ ONLY: ${writable}`)
}

/**
 * The protocol reads in a later statement what others committed after an earlier one. And a library that gives one session
 * to two transactions at once, as postgres.js may after a lost connection, would end both with either.
 */
function requireFitting({ isolation, others }: Begun): void {
  if (others !== null)
    throw bad(
      'what `transactional` gives its work is in the transaction of another round: its library has given one connection to both',
    )
  if (isolation === 'read committed') return
  throw new LockstepError(
    'LOCKSTEP_ISOLATION',
    `the transactions of \`transactional\` must be READ COMMITTED, not ${isolation.toUpperCase()}: give them that isolation level`,
  )
}

interface Named {
  readonly tx: unknown
  readonly open: OpenTransaction
  readonly name: string
  /** Its `pg` client, if the library shows it. */
  readonly client: object | undefined
}

class Lent implements LentTransaction {
  readonly tx: unknown
  readonly on: Through
  readonly name: string
  readonly pid: number
  number?: string
  #lost: Error | undefined
  readonly #database: Database
  readonly #begun: Begun
  readonly #client: EventEmitter | undefined
  #giveBack: (() => void) | undefined
  #canceling: NodeJS.Timeout | undefined

  constructor(database: Database, { tx, open, name, client }: Named, begun: Begun) {
    this.#database = database
    this.tx = tx
    this.on = open
    this.name = name
    this.pid = begun.pid
    this.#begun = begun
    this.#client = client instanceof EventEmitter ? client : undefined
    this.#client?.on('error', this.#lose)
  }

  /** Until it ends, its client begins and ends no transaction. */
  keep(): void {
    this.#giveBack = this.#client && keepTransaction(this.#client)
  }

  /**
   * Heard where the library shows its `pg` client. An application's pool does not listen while it has lent one, and an error
   * without a listener would end the process.
   */
  get lost(): Error | undefined {
    return this.#lost
  }

  readonly #lose = (error: Error) => {
    this.#lost ??= error
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
    this.#giveBack?.()
  }

  close(): void {
    this.#client?.off('error', this.#lose)
  }
}

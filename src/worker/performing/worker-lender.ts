import type { Logger } from '../../logger.ts'
import type { Database } from '../../postgres/database.ts'
import type { Queue } from '../../queue.ts'
import { ApplicationTransactions } from './application-transaction.ts'
import type { Lender, LentTransaction } from './lent-transaction.ts'
import { inOwnTransaction } from './own-transaction.ts'
import type { Abort } from './perform.ts'

/** Lends transactions of the worker's own, or of the application's where a queue says so. */
export class WorkerLender implements Lender {
  readonly #handlers: Database
  readonly #application: ApplicationTransactions

  /** `handlers` has a pool that only handlers' transactions use; `own` is for what is asked beside them. */
  constructor(own: Database, handlers: Database, logger: Logger) {
    this.#handlers = handlers
    this.#application = new ApplicationTransactions(own, logger)
  }

  lend<T>({ transactions }: Queue, work: (lent: LentTransaction) => Promise<T>, abort: Abort): Promise<T> {
    if (transactions) return this.#application.run(transactions, work, abort)
    return inOwnTransaction(this.#handlers, work)
  }
}

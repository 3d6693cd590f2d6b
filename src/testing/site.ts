import type { ClientBase } from 'pg'
import type { LookOptions } from '../admin/looks.ts'
import { LockstepError, OptionError } from '../errors.ts'
import { enterIn, homeOf, Lockstep } from '../lockstep.ts'
import type { Database } from '../postgres/database.ts'
import { hasCode } from '../postgres/failure.ts'
import type { Queue } from '../queue.ts'
import { readLockTimeout } from '../store/patience.ts'
import { transactionOf } from '../store/same-transaction.ts'
import type { Lender } from '../worker/performing/lent-transaction.ts'
import { WorkerLender } from '../worker/performing/worker-lender.ts'
import { Pools } from '../worker/pools.ts'
import { JoinedLender, requireFitting } from './joined-lender.ts'

/** Where a drain works: on connections of its own, or in the caller's transaction. */
export interface Site {
  readonly database: Database
  readonly lender: Lender
  /** The caller's transaction; undefined on own connections. */
  readonly client: ClientBase | undefined
  /** ms that storing waits for a locked row at once. */
  readonly lockTimeout: number
  /** @throws LockstepError `LOCKSTEP_BAD_TRANSACTION` if its handlers would get something else than they were written for */
  requireFitting(queue: Queue): void
  /** @throws LockstepError `LOCKSTEP_BAD_TRANSACTION` once the caller's transaction is over */
  requireOpen(): Promise<void>
  end(): Promise<void>
}

export async function openSite(lockstep: Lockstep, options: LookOptions): Promise<Site> {
  if (!(lockstep instanceof Lockstep))
    throw new OptionError('the first argument must be a Lockstep, of the same pg-lockstep')
  return 'tx' in options ? joinedSite(lockstep, options.tx) : ownSite(lockstep)
}

async function ownSite(lockstep: Lockstep): Promise<Site> {
  const home = homeOf(lockstep)
  const pools = new Pools(1, home)
  const { own: database, handlers } = pools
  const end = () => pools.end()
  try {
    const lockTimeout = await readLockTimeout(database)
    const lender = new WorkerLender(database, handlers, home.logger)
    return {
      database,
      lender,
      client: undefined,
      lockTimeout,
      requireFitting() {},
      async requireOpen() {},
      end,
    }
  } catch (error) {
    await end()
    throw error
  }
}

async function joinedSite(lockstep: Lockstep, tx: LookOptions['tx']): Promise<Site> {
  const entered = await enterIn(lockstep, tx, 'change')
  const { joined, client, database } = entered
  const number = await transactionOf(joined)
  return {
    database,
    lender: new JoinedLender(entered, tx),
    client,
    lockTimeout: await readLockTimeout(database),
    requireFitting: (queue) => requireFitting(entered, queue),
    async requireOpen() {
      if ((await transactionOf(joined).catch(undefinedIfEnded)) !== number) throw ended(joined.given)
    },
    async end() {},
  }
}

function undefinedIfEnded(error: unknown): undefined {
  if (!hasCode(error, 'LK004')) throw error
}

/** Whatever came next would be committed by itself. */
function ended(given: string): LockstepError {
  return new LockstepError(
    'LOCKSTEP_BAD_TRANSACTION',
    `\`tx\`, ${given}, was ended during drain: leave its COMMIT and ROLLBACK to the test, after drain`,
  )
}

import type { EnqueueTransaction } from '../adapters/enqueue-transaction.ts'
import type { Json } from '../json.ts'
import { rejectUnknownOptions, trueOrFalse } from '../options.ts'
import type { Database } from '../postgres/database.ts'
import type { Queue } from '../queue.ts'
import type { FoundJob, JobFilter, JobSort } from '../store/jobs.ts'
import type { DeadFilter, DeadPayload, DeadSort } from '../store/morgue.ts'
import type { Found, Page } from '../store/page.ts'
import type { TenantList } from '../store/tenant-list.ts'
import { find } from './jobs.ts'
import { findInMorgue } from './morgue.ts'
import type { Stats } from './stats.ts'
import type { TenantsOptions } from './tenants.ts'

export interface LookOptions {
  /** Looks in this transaction, at what only that sees, too; any that `enqueue` takes. Default: at what is committed. */
  readonly tx?: EnqueueTransaction
}

export interface FindOptions extends LookOptions {
  /** Whether what is found has its last failed `attempts`, which may be long. Default false. */
  readonly attempts?: boolean
}

/** What can be seen in a transaction of the application's, too. */
export class Looks {
  readonly #database: Database
  readonly #enter: (tx: LookOptions['tx']) => Promise<Database>

  /** `enter`: the database as a transaction sees it. */
  constructor(database: Database, enter: (tx: LookOptions['tx']) => Promise<Database>) {
    this.#database = database
    this.#enter = enter
  }

  async stats(options: LookOptions): Promise<Stats> {
    rejectUnknownOptions(options, ['tx'], 'stats')
    const { stats } = await import('./stats.ts')
    return stats(await this.#seenBy(options))
  }

  async find<P>(
    queue: Queue | string,
    filter: JobFilter & Page<JobSort>,
    options: FindOptions,
  ): Promise<Found<FoundJob<Json<P>>>> {
    const attempts = attemptsOf(options, 'find')
    const found = await find(await this.#seenBy(options), queue, filter, attempts)
    return found as Found<FoundJob<Json<P>>>
  }

  async findDead<P>(
    queue: Queue | string,
    filter: DeadFilter & Page<DeadSort>,
    options: FindOptions,
  ): Promise<Found<DeadPayload<Json<P>>>> {
    const attempts = attemptsOf(options, 'findDead')
    const found = await findInMorgue(await this.#seenBy(options), queue, filter, attempts)
    return found as Found<DeadPayload<Json<P>>>
  }

  async tenants(queue: Queue | string, options: TenantsOptions): Promise<TenantList> {
    const { checkTenantsOptions, tenants } = await import('./tenants.ts')
    checkTenantsOptions(options)
    return tenants(await this.#seenBy(options), queue, options)
  }

  async #seenBy(options: LookOptions): Promise<Database> {
    return 'tx' in options ? this.#enter(options.tx) : this.#database
  }
}

function attemptsOf(options: FindOptions, what: string): boolean {
  rejectUnknownOptions(options, ['tx', 'attempts'], what)
  const { attempts = false } = options
  return trueOrFalse(attempts, `${what}: attempts`)
}

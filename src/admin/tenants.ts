import { OptionError } from '../errors.ts'
import { rejectUnknownOptions, show, wholeNumber } from '../options.ts'
import type { Database } from '../postgres/database.ts'
import type { Queue } from '../queue.ts'
import type { TenantList } from '../store/tenant-list.ts'
import type { LookOptions } from './looks.ts'
import { resolveQueue } from './queues.ts'

export interface TenantsOptions extends LookOptions {
  /** 1 to 1,000. Default 50. */
  readonly limit?: number
  /** The `next` of an earlier page. */
  readonly after?: string
}

const DEFAULT_LIMIT = 50
const MAX_LIMIT = 1_000

/** @throws OptionError */
export function checkTenantsOptions(options: TenantsOptions): void {
  rejectUnknownOptions(options, ['limit', 'after', 'tx'], 'tenants')
  const { limit, after } = options
  if (limit !== undefined) wholeNumber(limit, 1, MAX_LIMIT, 'tenants: limit')
  if (after !== undefined && typeof after !== 'string')
    throw new OptionError(`tenants: after must be the \`next\` of an earlier page, not ${show(after)}`)
}

/** The tenants of a queue. Counts all its jobs. */
export async function tenants(
  database: Database,
  queue: Queue | string,
  { limit = DEFAULT_LIMIT, after }: Pick<TenantsOptions, 'limit' | 'after'>,
): Promise<TenantList> {
  const [{ queueId }, { listTenants }] = await Promise.all([
    resolveQueue(database, queue),
    import('../store/tenant-list.ts'),
  ])
  return listTenants(database, queueId, { limit, after })
}

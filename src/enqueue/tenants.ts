import { JobError, messageOf } from '../errors.ts'
import type { NewJob } from '../job.ts'
import type { Logger } from '../logger.ts'
import { show } from '../options.ts'
import { ignoreRejection } from '../promises.ts'
import type { Queue } from '../queue.ts'
import type { PushedJob } from '../store/push.ts'

/** ms between two warnings of jobs without a tenant. */
const QUIET = 60_000

/**
 * The jobs, with the tenants that the queue's definition tells of those that name none.
 * @throws JobError if it can't tell: it throws, or gives something else than text
 */
export function withTenants(queue: Queue, jobs: readonly NewJob[]): readonly NewJob[] {
  if (!queue.tenant) return jobs
  return jobs.map((job, index) => {
    if (typeof job !== 'object' || job === null || isNamed(job.tenant)) return job
    const tenant = tenantOf(queue, job, index)
    return isNamed(tenant) ? { ...job, tenant } : job
  })
}

function isNamed(tenant: unknown): boolean {
  return tenant !== undefined && tenant !== null && tenant !== ''
}

function tenantOf(queue: Queue, job: NewJob, index: number): string | null | undefined {
  const bad = (problem: string) => new JobError(index, 'tenant', problem)
  let tenant: unknown
  let returned: string
  try {
    tenant = queue.tenant!(job)
    if (!isNamed(tenant) || typeof tenant === 'string') return tenant as string | null | undefined
    // What it has returned may throw when it's read.
    ignoreRejection(tenant)
    returned = isPromise(tenant) ? 'a promise, but can’t wait: put the tenant into the job' : show(tenant)
  } catch (error) {
    throw bad(`can’t be told: the function \`tenant\` of queue "${queue.name}" threw: ${messageOf(error)}`)
  }
  throw bad(`must be text: the function \`tenant\` of queue "${queue.name}" returned ${returned}`)
}

function isPromise(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'then' in value
}

/** Says which jobs count for no rule, since no one knows whose they are. */
export class UntoldTenants {
  readonly #logger: Logger
  /** By queue, in ms of the monotonic clock. */
  readonly #warnedAt = new Map<string, number>()

  constructor(logger: Logger) {
    this.#logger = logger
  }

  see({ name, fairness }: Queue, jobs: readonly PushedJob[]): void {
    if (!fairness) return
    const untold = jobs.find(({ tenant, lane }) => tenant === null && lane === null)
    const now = performance.now()
    if (!untold || now - (this.#warnedAt.get(name) ?? Number.NEGATIVE_INFINITY) < QUIET) return
    this.#warnedAt.set(name, now)
    this.#logger.warn(
      { queue: name, id: untold.id },
      'a job has no tenant, so the rules of its queue don’t apply to it: name one, or let the queue’s `tenant` tell it',
    )
  }
}

import type { z } from 'zod'
import type { DeadFilter, DeadSort, JobFilter, JobSort, Page, Range } from '../../index.ts'
import { given } from '../../serving/values.ts'
import type { deadQuery, findQuery } from './schemas/look.ts'

type JobQuery = z.output<typeof findQuery>
type DeadQuery = z.output<typeof deadQuery>

export function jobFilterOf(query: JobQuery): JobFilter & Page<JobSort> {
  return given({
    ids: query.ids,
    id: rangeOf(query['id.from'], query['id.to']),
    performIn: rangeOf(query['perform_in.from'], query['perform_in.to']),
    retryCount: rangeOf(query['retry_count.from'], query['retry_count.to']),
    state: query.state,
    tenant: tenantOf(query.tenant),
    by: query.by && JOB_SORTS[query.by],
    ...pageOf(query),
  })
}

export function deadFilterOf(query: DeadQuery): DeadFilter & Page<DeadSort> {
  return given({
    ids: query.ids,
    id: rangeOf(query['id.from'], query['id.to']),
    diedAt: rangeOf(query['died_at.from'], query['died_at.to']),
    score: rangeOf(query['score.from'], query['score.to']),
    keys: query.keys,
    tenant: tenantOf(query.tenant),
    by: query.by && DEAD_SORTS[query.by],
    ...pageOf(query),
  })
}

const JOB_SORTS = { perform_in: 'performIn', id: 'id', retry_count: 'retryCount' } as const
const DEAD_SORTS = { died_at: 'diedAt', id: 'id', score: 'score' } as const

function pageOf({ direction, after, limit }: Pick<JobQuery, 'direction' | 'after' | 'limit'>) {
  return { direction, after, limit }
}

export function rangeOf<T>(from: T | undefined, to: T | undefined): Range<T> | undefined {
  return from === undefined && to === undefined ? undefined : given({ from, to })
}

/** An empty one stands for null, which a query can't say. */
function tenantOf(tenant: string | undefined): string | null | undefined {
  return tenant === '' ? null : tenant
}

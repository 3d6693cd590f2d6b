import type { FairnessRule } from '../fairness.ts'
import type { Database } from '../postgres/database.ts'
import { decodeCursor, encodeCursor, type SortColumn } from './page.ts'
import { holdersText } from './process.ts'

/** The state of a tenant in a queue. */
export interface TenantStats {
  readonly tenant: string
  /** Jobs not in work, and next rounds of jobs in work. */
  readonly waiting: number
  /** Jobs in work. */
  readonly working: number
  /** ms since its oldest due job became due; 0 if none is due. */
  readonly lag: number
  /** What it has pushed in the time that each rule looks at, in the order of the rules. */
  readonly pushes: number[]
  /** Where its next job would go. */
  readonly lane: number
  /** Whether a rule says so. */
  readonly throttled: boolean
}

/** A page of the tenants of a queue: those that have jobs in it, or have pushed within its window. */
export interface TenantList {
  /** How many there are, listed or not. */
  readonly total: number
  /** Those of the queue; of those that match, the last one decides. */
  readonly rules: Required<FairnessRule>[]
  /** Those for whom most jobs wait come first, and then by name, bytewise. */
  readonly items: TenantStats[]
  /** The cursor of the next page; undefined on the last page. */
  readonly next: string | undefined
}

const BY = 'waiting'
const SORT: readonly SortColumn[] = [
  { column: 'waiting', type: 'integer' },
  { column: 'tenant', type: 'text' },
]

interface Row {
  readonly total: number
  readonly rules: Required<FairnessRule>[] | null
  /** Null: the page is empty. */
  readonly tenant: string | null
  readonly waiting: number
  readonly working: number
  readonly lag: number
  readonly pushes: number[] | null
  readonly lane: number | null
}

/**
 * Counts all jobs of the queue, and the pushes within its window, in one statement: so all numbers are of one moment.
 * @throws OptionError for a cursor that is none
 */
export async function listTenants(
  database: Database,
  queueId: number,
  { limit, after }: { readonly limit: number; readonly after: string | undefined },
): Promise<TenantList> {
  const [waiting = null, tenant = null] = after === undefined ? [] : decodeCursor(BY, SORT, after)
  const rows = await database.query<Row>(textOf(database.prefix), [queueId, waiting, tenant, limit + 1])
  const items = rows.flatMap(({ total: _, rules: __, tenant, pushes, lane, ...row }) =>
    tenant === null
      ? []
      : [{ tenant, ...row, pushes: pushes ?? [], lane: lane ?? 0, throttled: lane !== null }],
  )
  const last = items.length > limit ? items[limit - 1] : undefined
  const { total = 0, rules = null } = rows[0] ?? {}
  return {
    total,
    rules: rules ?? [],
    items: items.slice(0, limit),
    next: last && encodeCursor(BY, [String(last.waiting), last.tenant]),
  }
}

/** What waits is counted as in the view queue_stats, and a rule decides as in the function lanes_of. */
function textOf(prefix: string): string {
  return `WITH now AS MATERIALIZED (SELECT clock_timestamp() AS at), queue AS MATERIALIZED (
       SELECT q.fairness FROM ${prefix}.queues q WHERE q.queue_id = $1
     ), counted AS (
       SELECT e.tenant, count(e.perform_in) AS waiting, count(*) FILTER (WHERE e.working) AS working, min(e.perform_in) AS oldest
       FROM (
         SELECT j.tenant, p.process_id IS NOT NULL AS working,
           CASE WHEN p.process_id IS NULL THEN j.perform_in ELSE j.next_perform_in END AS perform_in
         FROM ${prefix}.jobs j LEFT JOIN ${holdersText(prefix)} p ON p.process_id = j.claimed_by
         WHERE j.queue_id = $1 AND j.tenant IS NOT NULL
       ) e GROUP BY e.tenant
     ), pushed AS (
       SELECT DISTINCT t.tenant FROM ${prefix}.tenant_pushes t
       WHERE t.queue_id = $1 AND t.pushed_at >= (
         SELECT n.at - (q.fairness->>'window')::float8 * interval '1 s' FROM now n CROSS JOIN queue q
       )
     ), known AS MATERIALIZED (
       SELECT tenant, coalesce(c.waiting, 0) AS waiting, coalesce(c.working, 0) AS working, c.oldest
       FROM counted c FULL JOIN pushed USING (tenant)
     ), listed AS (
       SELECT k.* FROM known k
       WHERE $2::bigint IS NULL OR k.waiting < $2 OR (k.waiting = $2 AND k.tenant > $3)
       ORDER BY k.waiting DESC, k.tenant LIMIT $4
     )
     SELECT (SELECT count(*) FROM known) AS total, q.fairness->'rules' AS rules, l.tenant, l.waiting, l.working,
       coalesce(greatest(extract(epoch FROM n.at - l.oldest) * 1000, 0), 0)::float8 AS lag, d.pushes, d.lane
     FROM queue q CROSS JOIN now n LEFT JOIN listed l ON true
     LEFT JOIN LATERAL (
       SELECT json_agg(r.pushes ORDER BY r.n) AS pushes,
         (array_agg(r.lane ORDER BY r.n DESC) FILTER (WHERE r.pushes + 1 > r.over))[1] AS lane
       FROM (
         SELECT e.n, (e.rule->>'lane')::integer AS lane, (e.rule->>'over')::bigint AS over, (
           SELECT coalesce(sum(t.pushes), 0)::bigint FROM ${prefix}.tenant_pushes t
           WHERE t.queue_id = $1 AND t.tenant = l.tenant
             AND t.pushed_at >= n.at - (e.rule->>'per')::float8 * interval '1 s'
         ) AS pushes
         FROM jsonb_array_elements(q.fairness->'rules') WITH ORDINALITY AS e(rule, n)
       ) r
     ) d ON l.tenant IS NOT NULL
     ORDER BY l.waiting DESC, l.tenant`
}

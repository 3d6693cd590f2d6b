import type pg from 'pg'
import type { Usage } from './worker.ts'

/** Everything that might grow, in bytes or as a number, at one moment. */
export type Sample = Readonly<Record<keyof typeof FIGURES, number>>

/** How a figure is shown, and the factor by which it may grow; undefined if it goes up and down by itself. */
export interface Figure {
  readonly what: string
  readonly unit: 'MB' | ''
  readonly growth?: number
}

export const FIGURES = {
  rss: { what: 'RSS of the worker', unit: 'MB', growth: 1.15 },
  heap: { what: 'its heap in use', unit: 'MB' },
  jobs: { what: 'table jobs', unit: 'MB', growth: 1.1 },
  jobsIndexes: { what: 'indexes of jobs', unit: 'MB', growth: 1.2 },
  payloads: { what: 'table payloads, with what is out of line', unit: 'MB', growth: 1.1 },
  payloadsIndexes: { what: 'indexes of payloads', unit: 'MB', growth: 1.2 },
  // These rows are kept for a day, so only how dense they lie can be flat.
  minuteRow: { what: 'bytes for each row of minute_counters', unit: '', growth: 1.2 },
  others: { what: 'all other tables and indexes', unit: 'MB', growth: 1.1 },
  advisory: { what: 'advisory locks', unit: '', growth: 1 },
  sessions: { what: 'sessions', unit: '', growth: 1 },
  locks: { what: 'locks of any kind', unit: '' },
  dead: { what: 'dead rows, as Postgres estimates them', unit: '' },
  rate: { what: 'payloads processed in a second', unit: '' },
} as const satisfies Record<string, Figure>

const SERVER = `
  SELECT
    pg_table_size('lockstep.jobs') AS jobs,
    pg_indexes_size('lockstep.jobs') AS "jobsIndexes",
    pg_table_size('lockstep.payloads') AS payloads,
    pg_indexes_size('lockstep.payloads') AS "payloadsIndexes",
    (
      SELECT pg_total_relation_size('lockstep.minute_counters') / greatest(count(*), 1) FROM lockstep.minute_counters
    ) AS "minuteRow",
    (
      SELECT sum(pg_total_relation_size(oid)) FROM pg_class
      WHERE relnamespace = 'lockstep'::regnamespace AND relkind IN ('r', 'S')
        AND relname NOT IN ('jobs', 'payloads', 'minute_counters')
    ) AS others,
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()) AS advisory,
    (SELECT count(*) FROM pg_locks WHERE pid <> pg_backend_pid()) AS locks,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS sessions,
    (SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE schemaname = 'lockstep') AS dead`

export async function takeSample(pool: pg.Pool, { rss, heap }: Usage, rate: number): Promise<Sample> {
  const { rows } = await pool.query<Record<string, string>>(SERVER)
  const counted = Object.entries(rows[0]!).map(([key, value]) => [key, Number(value)])
  return { ...Object.fromEntries(counted), rss, heap, rate }
}

/** How a figure went from the start to the end of a run. */
export interface Course extends Figure {
  readonly start: number
  readonly end: number
  readonly highest: number
  readonly grew: boolean
}

/**
 * The start is the second quarter of the samples, the end is the last tenth; both are medians. In the first quarter,
 * the bulk-filled indexes reach the density that inserts and deletes leave them with.
 */
export function courseOf(samples: readonly Sample[]): Course[] {
  const [quarter, tenth] = [Math.ceil(samples.length / 4), Math.ceil(samples.length / 10)]
  return Object.entries<Figure>(FIGURES).map(([key, figure]) => {
    const values = samples.map((sample) => sample[key as keyof Sample])
    const start = median(values.slice(quarter, 2 * quarter))
    const end = median(values.slice(-tenth))
    const highest = Math.max(...values.slice(quarter))
    return {
      ...figure,
      start,
      end,
      highest,
      grew: figure.growth !== undefined && end > start * figure.growth,
    }
  })
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!
}

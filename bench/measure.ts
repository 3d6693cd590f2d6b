import type pg from 'pg'
import type { Lockstep } from '../src/index.ts'

/** What a case works with. */
export interface Bench {
  readonly lockstep: Lockstep
  readonly pool: pg.Pool
}

/** What a case did: a rate from `jobs` and `seconds`, or latencies in ms of which the median and p99 count. */
export type Result =
  | { readonly jobs: number; readonly seconds: number }
  | { readonly latencies: readonly number[] }

export interface Case {
  readonly name: string
  run(bench: Bench): Promise<Result>
}

/** A figure and what the server paid for it. */
export interface Measurement {
  readonly name: string
  readonly value: number
  readonly digits: number
  readonly unit: string
  readonly commits: number
  readonly walBytes: number
}

export async function measure({ name, run }: Case, bench: Bench): Promise<Measurement> {
  const before = await serverCost(bench.pool)
  const result = await run(bench)
  const after = await serverCost(bench.pool)
  const jobs = 'jobs' in result ? result.jobs : result.latencies.length
  const cost = { commits: (after.commits - before.commits) / jobs, walBytes: (after.wal - before.wal) / jobs }
  if ('jobs' in result)
    return { name, value: result.jobs / result.seconds, digits: 0, unit: 'jobs/s', ...cost }
  const sorted = result.latencies.toSorted((a, b) => a - b)
  const p99 = sorted[Math.floor(sorted.length * 0.99)]!
  return {
    name,
    value: sorted[Math.floor(sorted.length / 2)]!,
    digits: 2,
    unit: `ms (p99 ${p99.toFixed(1)})`,
    ...cost,
  }
}

/** Transactions that wrote, by the ids they took: the statistics' own count lags behind. */
async function serverCost(pool: pg.Pool): Promise<{ commits: number; wal: number }> {
  const { rows } = await pool.query(
    `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::float8 AS commits,
       pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 AS wal`,
  )
  return rows[0]
}

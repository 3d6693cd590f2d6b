import type pg from 'pg'
import { cpuOf, parentOf } from './cpu.ts'

/** The cost of something up to now. */
interface Meter {
  /** Transactions that wrote. */
  readonly commits: number
  readonly walBytes: number
  /** ms */
  readonly nodeCpu: number
  /** ms; undefined if the server is on another machine. */
  readonly serverCpu: number | undefined
}

/** The difference of two meters, per job; CPU in µs. */
export interface Cost {
  readonly commits: number
  readonly walBytes: number
  readonly nodeCpu: number
  readonly serverCpu: number | null
}

/** Measures what `work` costs this process and its servers, while they do nothing else. */
export class Meters {
  readonly #pool: pg.Pool
  readonly #servers: readonly number[]

  private constructor(pool: pg.Pool, servers: readonly number[]) {
    this.#pool = pool
    this.#servers = servers
  }

  /** `others`: process ids of further servers. */
  static async open(pool: pg.Pool, others: readonly number[] = []): Promise<Meters> {
    const { rows } = await pool.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    const postmaster = await parentOf(rows[0]!.pid)
    return new Meters(pool, postmaster === undefined ? [] : [postmaster, ...others])
  }

  async read(): Promise<Meter> {
    const { rows } = await this.#pool.query<{ commits: number; wal: number }>(
      // Counts transaction ids, since the count in the statistics lags behind.
      `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::float8 AS commits,
         pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 AS wal`,
    )
    const { user, system } = process.cpuUsage()
    const parts = await Promise.all(this.#servers.map(cpuOf))
    return {
      commits: rows[0]!.commits,
      walBytes: rows[0]!.wal,
      nodeCpu: (user + system) / 1000,
      serverCpu: parts.length > 0 ? parts.reduce<number>((sum, part) => sum + (part ?? 0), 0) : undefined,
    }
  }
}

export function costOf(before: Meter, after: Meter, jobs: number): Cost {
  const perJob = (difference: number) => difference / Math.max(1, jobs)
  return {
    commits: perJob(after.commits - before.commits),
    walBytes: perJob(after.walBytes - before.walBytes),
    nodeCpu: perJob((after.nodeCpu - before.nodeCpu) * 1000),
    serverCpu:
      before.serverCpu === undefined || after.serverCpu === undefined
        ? null
        : perJob((after.serverCpu - before.serverCpu) * 1000),
  }
}

import { existsSync, readFileSync } from 'node:fs'
import type { Claimed } from '../support/shares.ts'
import type { Cluster } from './cluster.ts'

/** A payload: the queue and id it was pushed to, and its number. */
export interface Item {
  readonly queue: string
  readonly id: string
  readonly n: number
}

/** A claim of a job that has a tenant, in the clock that all processes share. */
export interface TenantClaim extends Claimed {
  readonly queue: string
  readonly tenant: string | null
  readonly lane: number
  readonly fence: number
}

/** What was done according to the database and the producers. The handlers' log says what happened. */
export interface Truth {
  /**
   * Committed pushes, those of an id in the order of their numbers; `at` is in ns of the clock that all processes
   * share.
   */
  readonly sent: readonly (Item & { readonly at: bigint })[]
  /** Commits that were acknowledged to a producer. */
  readonly acknowledged: readonly Item[]
  /** What transactional handlers wrote, in order. */
  readonly applied: readonly Item[]
  readonly dead: readonly Item[]
  readonly claims: readonly TenantClaim[]
  /** Rows that should not be left. */
  readonly leftovers: { readonly jobs: number; readonly payloads: number }
}

export async function readTruth(cluster: Cluster): Promise<Truth> {
  const [left] = await cluster.sql<Truth['leftovers']>(
    'SELECT (SELECT count(*)::int FROM lockstep.jobs) AS jobs, (SELECT count(*)::int FROM lockstep.payloads) AS payloads',
  )
  const sent = await cluster.sql<Record<string, string>>('SELECT * FROM sent ORDER BY queue, id, n')
  const applied = await cluster.sql<Record<string, string>>(
    `SELECT 'exact' AS queue, id, n FROM applied ORDER BY position`,
  )
  const dead = await cluster.sql<Record<string, string>>(
    'SELECT q.name AS queue, job_id AS id, payload::text AS n FROM lockstep.morgue JOIN lockstep.queues q USING (queue_id)',
  )
  return {
    sent: sent.map((row) => ({ ...itemOf(row), at: BigInt(row.at!) })),
    acknowledged: readAcknowledged(cluster.acks),
    applied: applied.map(itemOf),
    dead: dead.map(itemOf),
    claims: await readClaims(cluster),
    leftovers: left!,
  }
}

/** By the server's clock they are as far apart as in the other. */
async function readClaims(cluster: Cluster): Promise<TenantClaim[]> {
  const rows = await cluster.sql<Omit<TenantClaim, 'at'> & { micros: string }>(
    `SELECT q.name AS queue, c.id, c.tenant, c.lane, c.fence::int, (extract(epoch FROM c.at) * 1000000)::bigint::text AS micros
     FROM claims c JOIN lockstep.queues q USING (queue_id) ORDER BY c.at`,
  )
  const offset = process.hrtime.bigint() - BigInt(Date.now()) * 1_000_000n
  return rows.map(({ micros, ...claim }) => ({ ...claim, at: BigInt(micros) * 1_000n + offset }))
}

function itemOf({ queue, id, n }: Record<string, string>): Item {
  return { queue: queue!, id: id!, n: Number(n) }
}

function readAcknowledged(file: string): Item[] {
  if (!existsSync(file)) return []
  return readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .flatMap((line) => {
      const [queue, jobs] = JSON.parse(line) as [string, [string, number][]]
      return jobs.map(([id, n]) => ({ queue, id, n }))
    })
}

import { setTimeout as sleep } from 'node:timers/promises'
import { type Cluster, LEASE } from '../cluster.ts'
import type { Fault } from '../fault.ts'

/** ms: short enough for fewer failures than a job may have. */
const REFUSED_FOR = 500

/**
 * A deferred constraint refuses what a handler has written when its transaction commits. That is a failure like any
 * other.
 */
const refusedCommit: Fault = {
  name: 'commit that fails',
  weight: 3,
  async inject(cluster) {
    const id = cluster.name('refused')
    await cluster.patiently(() => refuse(cluster, id))
    await cluster.patiently(() => cluster.push([id], 1)).catch(() => {})
    await cluster.until(`${id} failed, or no longer refused`, async () => {
      const rows = await cluster.sql(
        `SELECT FROM refused WHERE id = $1 AND until < clock_timestamp()
         UNION ALL SELECT FROM lockstep.jobs WHERE id = $1 AND retry_count >= 0`,
        [id],
      )
      return rows.length > 0
    })
  },
}

async function refuse(cluster: Cluster, id: string): Promise<void> {
  await cluster.sql(
    `INSERT INTO refused VALUES ($1, clock_timestamp() + $2 * interval '1 ms') ON CONFLICT DO NOTHING`,
    [id, REFUSED_FOR],
  )
}

/**
 * A server crash loses what was committed without waiting for the disk. It must not lose a claim: the handler would go
 * on while the next process to claim the job runs another. The server writes late. It crashes once when its sessions
 * have the new default, and once more later.
 */
const carelessCommits: Fault = {
  name: 'server crashed, synchronous_commit off',
  weight: 3,
  async inject(cluster) {
    await setDefaults(cluster, ['SET synchronous_commit = off', "SET wal_writer_delay = '10s'"])
    await cluster.restartServer('immediate')
    await sleep(LEASE)
    await cluster.restartServer('immediate')
    await setDefaults(cluster, ['RESET synchronous_commit', 'RESET wal_writer_delay'])
  },
}

async function setDefaults(cluster: Cluster, changes: readonly string[]): Promise<void> {
  for (const change of changes) await cluster.patiently(() => cluster.sql(`ALTER SYSTEM ${change}`))
  await cluster.patiently(() => cluster.sql('SELECT pg_reload_conf()'))
}

export const commitFaults: readonly Fault[] = [refusedCommit, carelessCommits]

import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault } from '../fault.ts'
import { type Field, LEASE } from '../field.ts'

/** ms: fewer failures than a job may have. */
const REFUSED_FOR = 500

/** A deferred constraint refuses what a handler has written, when its transaction commits: a failure like any other. */
const refusedCommit: Fault = {
  name: 'commit that fails',
  weight: 3,
  async inject(field) {
    const id = field.name('refused')
    await field.patiently(() => refuse(field, id))
    await field.patiently(() => field.push([id], 1)).catch(() => {})
    await field.until(`${id} failed, or no longer refused`, async () => {
      const rows = await field.sql(
        `SELECT FROM refused WHERE id = $1 AND until < clock_timestamp()
         UNION ALL SELECT FROM lockstep.jobs WHERE id = $1 AND retry_count >= 0`,
        [id],
      )
      return rows.length > 0
    })
  },
}

async function refuse(field: Field, id: string): Promise<void> {
  await field.sql(
    `INSERT INTO refused VALUES ($1, clock_timestamp() + $2 * interval '1 ms') ON CONFLICT DO NOTHING`,
    [id, REFUSED_FOR],
  )
}

/**
 * What commits without waiting is lost with the server, so a claim must not: its handler would go on beside that of the
 * next to claim. The server writes late, and crashes once its sessions have the new default, and once more.
 */
const carelessCommits: Fault = {
  name: 'server crashed, synchronous_commit off',
  weight: 3,
  async inject(field) {
    await setDefaults(field, ['SET synchronous_commit = off', "SET wal_writer_delay = '10s'"])
    await field.restartServer('immediate')
    await sleep(LEASE)
    await field.restartServer('immediate')
    await setDefaults(field, ['RESET synchronous_commit', 'RESET wal_writer_delay'])
  },
}

async function setDefaults(field: Field, changes: readonly string[]): Promise<void> {
  for (const change of changes) await field.patiently(() => field.sql(`ALTER SYSTEM ${change}`))
  await field.patiently(() => field.sql('SELECT pg_reload_conf()'))
}

export const commitFaults: readonly Fault[] = [refusedCommit, carelessCommits]

import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import { inject } from 'vitest'

export interface TestDatabase {
  connectionString: string
  /** Also disconnects remaining sessions. */
  drop(): Promise<void>
}

interface DatabaseOptions {
  /** The URL of a server; default: that of this run. */
  readonly serverUrl?: string
  /** As in CREATE DATABASE. */
  readonly options?: string
}

/** A copy of the migrated database of this run, which is quicker than to migrate another. */
export function createMigrated(): Promise<TestDatabase> {
  return createDatabase({ options: `TEMPLATE ${inject('template')}` })
}

/** A new, empty database. */
export async function createDatabase({
  serverUrl = inject('serverUrl'),
  options = '',
}: DatabaseOptions = {}): Promise<TestDatabase> {
  const name = `lockstep_test_${randomBytes(6).toString('hex')}`
  await execute(serverUrl, `CREATE DATABASE ${name} ${options}`)
  return {
    connectionString: withDatabase(serverUrl, name),
    drop: () =>
      connected(serverUrl, async (client) => {
        await allLeft(client, name)
        await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
      }),
  }
}

/**
 * A pool has ended once it has said goodbye, but its sessions end a moment later. If they are disconnected in between,
 * no one listens for their errors any more. Gives up waiting for sessions after `patience` ms.
 */
async function allLeft(client: Client, name: string, patience = 500): Promise<void> {
  const until = performance.now() + patience
  const isInUse = async () =>
    (await client.query('SELECT FROM pg_stat_activity WHERE datname = $1', [name])).rowCount! > 0
  while ((await isInUse()) && performance.now() < until) await pause(5)
}

function withDatabase(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

/** Runs a statement as the user that the URL names. */
export async function execute(connectionString: string, statement: string): Promise<void> {
  await connected(connectionString, (client) => client.query(statement))
}

async function connected(connectionString: string, use: (client: Client) => Promise<unknown>): Promise<void> {
  const client = new Client({ connectionString })
  await client.connect()
  try {
    await use(client)
  } finally {
    await client.end()
  }
}

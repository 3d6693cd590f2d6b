import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { inject } from 'vitest'

export interface TestDatabase {
  connectionString: string
  /** Throws out whoever is still connected. */
  drop(): Promise<void>
}

/** A fresh, empty database on the server of this run, with what CREATE DATABASE takes. */
export async function createDatabase(options = ''): Promise<TestDatabase> {
  const serverUrl = inject('serverUrl')
  const name = `lockstep_test_${randomBytes(6).toString('hex')}`
  await execute(serverUrl, `CREATE DATABASE ${name} ${options}`)
  return {
    connectionString: withDatabase(serverUrl, name),
    drop: () => execute(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  }
}

function withDatabase(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

/** As whom the URL names. */
export async function execute(connectionString: string, statement: string): Promise<void> {
  const client = new Client({ connectionString })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

import { spawnSync } from 'node:child_process'
import type { TestProject } from 'vitest/node'
import { Lockstep } from '../../src/lockstep.ts'
import { startEmbeddedPostgres } from '../../src/postgres/embedded.ts'
import { createDatabase } from './database.ts'
import { migrateTables } from './partitions.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** A server on which the tests may create databases. */
    serverUrl: string
    /** The name of a database that is migrated, to be copied. */
    template: string
  }
}

const DEFAULT_IMAGE = 'postgres:18-alpine'

interface TestServer {
  /** For people. */
  readonly name: string
  readonly connectionString: string
  stop?(): Promise<unknown>
}

/** One Postgres for the whole run: the one that DATABASE_URL names, otherwise an embedded one or a container. */
export default async function provideServer(project: TestProject): Promise<() => Promise<void>> {
  const server = await findServer(process.env)
  console.log(`testing on ${server.name}`)
  const template = await createDatabase({ serverUrl: server.connectionString })
  await migrated(template.connectionString)
  project.provide('serverUrl', server.connectionString)
  project.provide('template', new URL(template.connectionString).pathname.slice(1))
  return async () => {
    await template.drop()
    await server.stop?.()
  }
}

async function migrated(connectionString: string): Promise<void> {
  const lockstep = new Lockstep({ connectionString })
  await migrateTables(lockstep, connectionString)
  await lockstep.close()
}

/** @throws for an unknown value of LOCKSTEP_TEST_DATABASE, and for an image that can't be started */
export async function findServer(env: NodeJS.ProcessEnv): Promise<TestServer> {
  const { DATABASE_URL, LOCKSTEP_TEST_DATABASE = 'embedded', LOCKSTEP_TEST_IMAGE = DEFAULT_IMAGE } = env
  if (!['embedded', 'container'].includes(LOCKSTEP_TEST_DATABASE))
    throw new Error(`LOCKSTEP_TEST_DATABASE must be embedded or container, not "${LOCKSTEP_TEST_DATABASE}"`)
  if (DATABASE_URL) return { name: nameOf(DATABASE_URL), connectionString: DATABASE_URL }
  if (LOCKSTEP_TEST_DATABASE === 'container') return startContainer(LOCKSTEP_TEST_IMAGE)
  // Only a crash of the machine itself would show the difference.
  const { connectionString, stop } = await startEmbeddedPostgres({
    settings: { fsync: 'off', full_page_writes: 'off' },
  })
  return { name: 'an embedded Postgres', connectionString, stop }
}

/** Omits the password. */
function nameOf(connectionString: string): string {
  const { host, pathname } = new URL(connectionString)
  return `${host}${pathname}, the server of DATABASE_URL`
}

async function startContainer(image: string): Promise<TestServer> {
  const { PostgreSqlContainer } = await import('@testcontainers/postgresql')
  const container = await new PostgreSqlContainer(image)
    .withCommand(['postgres', '-c', 'fsync=off', '-c', 'max_connections=200'])
    .start()
    .catch((error: Error) => {
      throw new Error(
        `the container image ${image} could not be started; LOCKSTEP_TEST_IMAGE names another: ${error.message}`,
        { cause: error },
      )
    })
  const remove = removeAtExit(container.getId())
  const stop = async () => {
    process.off('exit', remove)
    await container.stop()
  }
  return { name: `a container of ${image}`, connectionString: container.getConnectionUri(), stop }
}

/** For an interrupted run, since testcontainers' own reaper may be switched off. */
function removeAtExit(id: string): () => void {
  const remove = () => void spawnSync('docker', ['rm', '--force', '--volumes', id], { stdio: 'ignore' })
  process.on('exit', remove)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
  return remove
}

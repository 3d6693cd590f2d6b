import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { Client } from 'pg'
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { createDatabase, type TestDatabase } from '../support/database.ts'

const DEMO = JSON.stringify(new URL('../../src/cli/demo/demo.ts', import.meta.url))
const EVENTS = 1_500
/** Processes start slowly from source on a busy machine. */
const TIMEOUT = 110_000
const undo: (() => Promise<unknown> | unknown)[] = []
let database: TestDatabase

beforeAll(async () => {
  database = await createDatabase()
  return () => database.drop()
})

afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

describe('the demo', { timeout: TIMEOUT }, () => {
  test('shows that nothing goes wrong though a worker is killed, and leaves the database as it was', async () => {
    const { result, code } = await finish(onDatabase({ naive: false, json: true, events: EVENTS }))
    expect(result).toMatchObject({ mode: 'lockstep', passed: true, waiting: 0, orders: 30 })
    expect(result).toMatchObject({ lost: 0, appliedTwice: 0, traces: 0, outOfOrder: 0, overlaps: 0 })
    expect(result).toMatchObject({ setbacks: 0, outdated: 0 })
    expect(result.applied).toBe(result.sent)
    expect(result.rolledBack).toBeGreaterThan(0)
    expect(code).toBe(0)
    expect(await schemas()).toEqual([])
  })

  test('shows what goes wrong in a naive pool', async () => {
    const { result, code } = await finish(onDatabase({ naive: true, json: true, events: EVENTS }))
    expect(result).toMatchObject({ mode: 'naive', passed: true, lost: 0, appliedTwice: 0, traces: 0 })
    expect(result.outOfOrder).toBeGreaterThan(0)
    expect(result.overlaps).toBeGreaterThan(0)
    expect(code).toBe(0)
    expect(await schemas()).toEqual([])
  })

  test('leaves a schema alone that it has not made', async () => {
    await ask('CREATE SCHEMA lockstep_demo_shop')
    undo.push(() => ask('DROP SCHEMA lockstep_demo_shop'))
    const demo = onDatabase({ naive: true, json: true, events: EVENTS })
    expect(await text(demo.stderr!)).toContain('LOCKSTEP_DEMO_SCHEMA')
    expect(await schemas()).toEqual(['lockstep_demo_shop'])
  })

  test('leaves no process, no server and no directory behind on SIGINT', async () => {
    const temporary = await createDirectory()
    const demo = start(
      { naive: false, json: false, events: 100_000 },
      { DATABASE_URL: '', TMPDIR: temporary },
    )
    await untilSending(demo)
    const descendants = descendantsOf(demo.pid!)
    // Two workers, the feed, the server and its processes.
    expect(descendants.length).toBeGreaterThan(5)

    demo.kill('SIGINT')
    expect(await once(demo, 'exit')).toEqual([130, null])
    await vi.waitFor(() => expect(descendants.filter(isAlive)).toEqual([]), { timeout: 5_000 })
    expect((await readdir(temporary)).filter((name) => !name.startsWith('tsx-'))).toEqual([])
  })

  test('leaves no schema and no process behind in a given database on SIGTERM', async () => {
    const demo = onDatabase({ naive: false, json: false, events: 100_000 })
    await untilSending(demo)
    const descendants = descendantsOf(demo.pid!)

    demo.kill('SIGTERM')
    expect(await once(demo, 'exit')).toEqual([143, null])
    await vi.waitFor(() => expect(descendants.filter(isAlive)).toEqual([]), { timeout: 5_000 })
    expect(await schemas()).toEqual([])
  })

  test('workers end when the demo is killed', async () => {
    const demo = onDatabase({ naive: false, json: false, events: 100_000 })
    await untilSending(demo)
    const descendants = descendantsOf(demo.pid!)

    demo.kill('SIGKILL')
    await vi.waitFor(() => expect(descendants.filter(isAlive)).toEqual([]), { timeout: 10_000 })
    await ask('DROP SCHEMA lockstep_demo, lockstep_demo_shop CASCADE')
  })
})

interface Options {
  naive: boolean
  json: boolean
  events: number
}

function onDatabase(options: Options): ChildProcess {
  return start(options, { DATABASE_URL: database.connectionString })
}

function start(options: Options, environment: Record<string, string>): ChildProcess {
  const script = `
    const { runDemo } = await import(${DEMO})
    process.exitCode = await runDemo(${JSON.stringify(options)})`
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  undo.push(() => child.kill('SIGKILL'))
  return child
}

async function finish(demo: ChildProcess) {
  const exit = once(demo, 'exit')
  const [output, errors] = await Promise.all([text(demo.stdout!), text(demo.stderr!)])
  expect(errors).toBe('')
  const [code] = await exit
  return { result: JSON.parse(output), code }
}

async function untilSending(demo: ChildProcess): Promise<void> {
  for await (const line of createInterface({ input: demo.stderr! })) {
    if (/applied [1-9]/.test(line)) return void demo.stderr!.resume()
  }
  throw new Error('the demo ended before it sent anything')
}

/** All descendants, including those of the server, which is a child of its keeper. */
function descendantsOf(pid: number): number[] {
  const children = new Map<number, number[]>()
  for (const line of execFileSync('ps', ['-A', '-o', 'pid=,ppid=', '-ww'], { encoding: 'utf8' })
    .trim()
    .split('\n')) {
    const [child, parent] = line.trim().split(/\s+/).map(Number)
    children.set(parent!, [...(children.get(parent!) ?? []), child!])
  }
  const found = (parent: number): number[] =>
    (children.get(parent) ?? []).flatMap((child) => [child, ...found(child)])
  return found(pid)
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

async function schemas(): Promise<string[]> {
  const rows = await ask("SELECT nspname AS name FROM pg_namespace WHERE nspname LIKE 'lockstep%' ORDER BY 1")
  return rows.map(({ name }) => name)
}

async function ask(statement: string): Promise<{ name: string }[]> {
  const client = new Client(database.connectionString)
  await client.connect()
  try {
    return (await client.query(statement)).rows
  } finally {
    await client.end()
  }
}

async function createDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'lockstep-test-'))
  undo.push(() => rm(directory, { recursive: true }))
  // If root runs the tests, the server belongs to another user.
  await chmod(directory, 0o777)
  return directory
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { remains, type Trace, traceOf } from '../support/embedded-trace.ts'

const SERVE = new URL('../support/serve.ts', import.meta.url).pathname
const undo: (() => unknown)[] = []

afterEach(() => {
  for (const step of undo.splice(0)) step()
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
})

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

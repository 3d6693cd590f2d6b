import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, inject, test, vi } from 'vitest'
import { Network } from '../support/network.ts'
import { useWorkers } from '../support/worker-environment.ts'

// Processes start slowly if others use the same processor.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

/**
 * Performs a job beside one that is due later, and says so. When its input ends, ends everything it began, and reports how
 * many ms later the process ended.
 */
const PROGRAM = `
const { defineQueue, Lockstep } = await import(process.env.LOCKSTEP)
const queue = defineQueue(process.env.QUEUE, { perform() {} })
const lockstep = new Lockstep({ connectionString: process.env.DATABASE_URL })
const worker = lockstep.createWorker({ queues: [queue] })
const completed = new Promise((resolve) => worker.once('completed', resolve))
await lockstep.enqueue(queue, { id: 'later', performIn: Date.now() + 3_600_000 })
await worker.start()
await lockstep.enqueue(queue, { id: 'a' })
await completed
console.log('completed')
for await (const _ of process.stdin);
await worker.stop()
await lockstep.close()
const closed = performance.now()
process.on('exit', () => console.log(Math.round(performance.now() - closed)))
`

/** The same with nothing but the wake-up connection, which has just been heard. */
const LISTENING = `
const { Listener } = await import(process.env.LISTENER)
const logger = { debug() {}, info() {}, warn: console.error, error: console.error }
const listener = new Listener({ connectionString: process.env.DATABASE_URL }, 'lockstep', logger, () => {})
await listener.start()
while (!listener.hears) await new Promise((resolve) => setTimeout(resolve, 10))
console.log('completed')
for await (const _ of process.stdin);
await listener.stop()
const closed = performance.now()
process.on('exit', () => console.log(Math.round(performance.now() - closed)))
`

/** Makes every import of Kysely fail. */
const WITHOUT_KYSELY = `data:text/javascript,${encodeURIComponent(`
import { register } from 'node:module'
const hooks = \`export async function resolve(specifier, context, next) {
  if (specifier === 'kysely') throw new Error('Kysely was loaded by ' + context.parentURL)
  return next(specifier, context)
}\`
register('data:text/javascript,' + encodeURIComponent(hooks))
`)}`

const env = useWorkers()
const source = join(import.meta.dirname, '../../src')
const built = join(inject('builtPackage'), 'dist/src')
const FROM_SOURCE = ['--import', 'tsx']

interface Run {
  readonly flags?: readonly string[]
  readonly connectionString?: string
  readonly program?: string
  /** What happens before it ends. */
  readonly meanwhile?: () => void
}

/** Runs the program as an argument of node, as a module; resolves to the outcome. */
async function run(
  queue: string,
  library: string,
  { flags = [], program = PROGRAM, meanwhile, ...given }: Run = {},
) {
  const child = spawn(process.execPath, [...flags, '--input-type=module', '-e', program], {
    env: {
      ...process.env,
      DATABASE_URL: given.connectionString ?? env.connectionString,
      LOCKSTEP: pathToFileURL(library).href,
      LISTENER: pathToFileURL(join(source, 'worker/discovery/listener.ts')).href,
      QUEUE: queue,
    },
    stdio: 'pipe',
  })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
    meanwhile?.()
    child.stdin.end()
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const [code] = await once(child, 'close')
  return { code: code as number, stdout, stderr }
}

function tookToEnd(stdout: string): number {
  const [, took] = /^completed\n(\d+)\n$/.exec(stdout) ?? []
  return Number(took)
}

describe('in a program given with `node --input-type=module -e`', () => {
  test('a worker works, from source', async () => {
    const ended = await run('source', join(source, 'index.ts'), { flags: FROM_SOURCE })
    expect(ended).toMatchObject({ code: 0, stderr: '' })
  })

  test('R15: a worker works, built; stopped and closed, nothing of it keeps the process alive', async () => {
    const { stdout, ...ended } = await run('built', join(built, 'index.js'))
    expect(ended).toEqual({ code: 0, stderr: '' })
    expect(tookToEnd(stdout)).toBeLessThan(700)
  })

  test.each([
    ['any', PROGRAM, []],
    ['the wake-up', LISTENING, FROM_SOURCE],
  ])('R15: nor does %s connection that has gone silent', async (_, program, flags) => {
    const network = await Network.to(env.connectionString)
    env.later(() => network.close())
    const { connectionString } = network
    const meanwhile = () => network.strand()
    const silent = { program, flags, connectionString, meanwhile }
    const { code, stdout } = await run('silent', join(built, 'index.js'), silent)
    expect(code).toBe(0)
    expect(tookToEnd(stdout)).toBeLessThan(700)
  })

  test('producers and workers do without Kysely', async () => {
    const { stdout, ...ended } = await run('bare', join(built, 'index.js'), {
      flags: ['--import', WITHOUT_KYSELY],
    })
    expect(ended).toEqual({ code: 0, stderr: '' })
  })
})

import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { expect, it, vi } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { type Command, fixture, lockstep } from './command.ts'
import { useCommandWorkers } from './workers.ts'

const DEADLINE = { timeout: 30_000, interval: 50 }
const cli = useCommandWorkers()

const work = (file: string, ...args: string[]) => cli.work(file, '--health-port', '0', ...args)

const named = (event: string) => (line: { event?: string }) => line.event === event

interface Body {
  readonly live: boolean
  readonly reasons: readonly string[]
  readonly processes?: readonly { readonly index: number; readonly pid: number; readonly live: boolean }[]
}

/** The status and the body, of a server that answers. */
async function probe(command: Command, path: string): Promise<{ status: number; body: Body }> {
  const { port } = await command.line(named('health'))
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: 'close' } })
  return { status: response.status, body: (await response.json()) as Body }
}

const statuses = async (command: Command) =>
  Promise.all(['/livez', '/readyz', '/startupz'].map(async (path) => (await probe(command, path)).status))

it('a worker that stops is live, but not ready, until its handlers have ended', {
  tags: 'slow',
}, async () => {
  await cli.library.enqueue(defineQueue('patient'), { id: 'a' })
  const command = work('waiting.ts', '--queues', 'patient', '--shutdown-timeout', '3000')
  await command.line(named('performing'))
  await command.line(named('started'))
  expect(await statuses(command)).toEqual([200, 200, 200])
  command.child.kill('SIGTERM')
  await command.line(named('stopping'))
  expect(await statuses(command)).toEqual([200, 503, 200])
  expect(await probe(command, '/readyz')).toMatchObject({ body: { reasons: ['it is stopping'] } })
  // The server does not keep it.
  expect((await command.ended).code).toBe(0)
})

it('listens at one address only if it is told to', async () => {
  const command = work('ordered.ts', '--health-host', '127.0.0.1')
  expect(await command.line(named('health'))).toMatchObject({ host: '127.0.0.1' })
})

it.each([[], ['--processes', '2']])('a port that is taken ends it, with a message %s', async (...args) => {
  const server = createServer().listen(0)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const taken = await lockstep(
    ['work', '-r', fixture('ordered.ts'), '--health-port', String(port), ...args],
    { env: cli.env },
  )
  server.close()
  expect(taken).toMatchObject({ code: 2, stderr: expect.stringMatching(/--health-port \d+: .*EADDRINUSE/) })
})

it('an address without a port is wrong usage', async () => {
  const args = ['work', '-r', fixture('ordered.ts'), '--health-host', '127.0.0.1']
  expect(await lockstep(args, { env: cli.env })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--health-host needs --health-port'),
  })
})

it('the parent of several answers for all, and says which one is not well', { tags: 'slow' }, async () => {
  const command = work('ordered.ts', '--processes', '2')
  await vi.waitFor(async () => expect(await statuses(command)).toEqual([200, 200, 200]), DEADLINE)
  const { body } = await probe(command, '/readyz')
  expect(body.processes).toMatchObject([
    { index: 0, ready: true, state: 'running' },
    { index: 1, ready: true, state: 'running' },
  ])
  const { pid } = body.processes![1]!
  process.kill(pid, 'SIGSTOP')
  const stopped = await probe(command, '/livez')
  expect(stopped).toMatchObject({ status: 503, body: { live: false, ready: false } })
  expect(stopped.body.reasons).toEqual([`process 1 (pid ${pid}): no answer within 1500 ms`])
  // They wait together.
  const probes = await Promise.all(Array.from({ length: 50 }, () => probe(command, '/livez')))
  expect(new Set(probes.map(({ status }) => status))).toEqual(new Set([503]))
  process.kill(pid, 'SIGKILL')
  // Another one is started in its place.
  await vi.waitFor(async () => {
    const { status, body: now } = await probe(command, '/readyz')
    expect(now.processes![1]!.pid).not.toBe(pid)
    expect(status).toBe(200)
  }, DEADLINE)
  expect(await statuses(command)).toEqual([200, 200, 200])
  command.child.kill('SIGTERM')
  const { code, stderr } = await command.ended
  expect(code).toBe(0)
  expect(stderr).not.toContain('MaxListenersExceededWarning')
})

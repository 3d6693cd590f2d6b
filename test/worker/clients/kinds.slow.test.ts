import { afterAll, beforeAll, expect, test } from 'vitest'
import { Lockstep, type Queue } from '../../../src/index.ts'
import { startWebSocketProxy, type WebSocketProxy } from '../../support/websocket-proxy.ts'
import { eventually, Gate, next, useWorkers } from '../../support/worker-environment.ts'
import { KINDS, useProxy } from './kinds.ts'
import { Tokens } from './tokens.ts'

const env = useWorkers()
let proxy: WebSocketProxy

beforeAll(async () => {
  proxy = await startWebSocketProxy()
  useProxy(proxy)
})
afterAll(() => proxy?.close())

const MODULE = 'a module that creates clients'

/** The sessions in which the lease is renewed, and in which wake-ups are heard. */
const ALONE = [/SET renewal = /, /^(UN)?LISTEN|^NOTIFY|pg_notify\(\$1, \$2\)/]

async function open(kind: string) {
  const tokens = await Tokens.create(env)
  env.later(() => tokens.drop())
  const { pool, ...others } = KINDS[kind]!(tokens)
  pool!.on('error', () => {})
  const lockstep = new Lockstep({ pool: pool!, ...others, logger: env.logger })
  env.later(async () => {
    await lockstep.close()
    await pool!.end()
  })
  return { tokens, pool: pool!, lockstep }
}

function queues(): { plain: Queue; transactional: Queue; done: string[] } {
  const done: string[] = []
  const plain = env.queue({ perform: (batch) => void done.push(...batch.keys()) })
  const transactional = env.transactional({
    perform: async (batch, { tx }) => {
      await tx.query('SELECT 1')
      done.push(...batch.keys())
    },
  })
  return { plain, transactional, done }
}

test.each(Object.keys(KINDS))(
  'with %s, a worker whose token is no longer good comes back on all its connections',
  async (kind) => {
    const { tokens, pool, lockstep } = await open(kind)
    const { plain, transactional, done } = queues()
    // So long that what is pushed is heard of, or never.
    const worker = env.create({ queues: [plain, transactional], poll: 60_000, lease: 4_000 }, lockstep)
    env.later(() => worker.stop())
    await worker.start()
    const push = async (id: string) => {
      await eventually(async () => expect(await env.flagged(plain)).toBe(true))
      const client = await pool.connect()
      await client.query('BEGIN')
      await lockstep.enqueue(plain, { id: `plain ${id}` }, { tx: client })
      await lockstep.enqueue(transactional, { id: `transactional ${id}` }, { tx: client })
      await client.query('COMMIT')
      client.release()
      await eventually(() =>
        expect(done).toEqual(expect.arrayContaining([`plain ${id}`, `transactional ${id}`])),
      )
    }
    await push('before')
    const before = (await tokens.sessions()).map(({ pid }) => pid)
    await tokens.rotate()
    const registered = worker.processId
    const { fetched } = tokens
    await tokens.cut()
    await eventually(async () => {
      const sessions = await tokens.sessions()
      expect(sessions.filter(({ pid }) => before.includes(pid))).toEqual([])
      for (const session of ALONE)
        expect(sessions.map(({ query }) => query)).toContainEqual(expect.stringMatching(session))
      // The new lease session is another one, so the process has registered again.
      expect(worker.processId).toBeGreaterThan(registered)
    })
    await push('after')
    // One for each connection, except of a module, which reads its token itself.
    if (kind !== MODULE)
      expect(tokens.fetched - fetched).toBeGreaterThanOrEqual((await tokens.sessions()).length)
    expect(await worker.stop()).toBe(true)
    await eventually(async () => {
      const left = (await tokens.sessions()).filter(({ query }) => !query.startsWith('COMMIT'))
      expect(left.filter(({ query }) => ALONE.some((alone) => alone.test(query)))).toEqual([])
    })
    expect(JSON.stringify(env.warnings)).not.toContain('secret-')
    if (kind.startsWith('Neon')) expect(proxy.passed()).toBeGreaterThan(8)
  },
  60_000,
)

test.each(['a password function', 'a stream', 'one that takes a moment, and passes no options on'])(
  'with %s, a worker goes on once tokens can be fetched again, and says what kept it',
  async (kind) => {
    const { tokens, lockstep } = await open(kind)
    const { plain, done } = queues()
    const worker = env.create({ queues: [plain], lease: 1_000 }, lockstep)
    env.later(() => worker.stop())
    await worker.start()
    const lost = next(worker, 'leaseLost')
    await tokens.rotate()
    tokens.failure = new Error('the signer is out of reach')
    await tokens.cut()
    await lost
    expect(JSON.stringify(env.warnings)).toMatch(
      /failed, so there is no connection: the signer is out of reach/,
    )
    await env.lockstep.enqueue(plain, { id: 'a' })
    tokens.failure = undefined
    await eventually(() => expect(done).toEqual(['a']))
    expect(JSON.stringify(env.warnings)).not.toContain('secret-')
  },
  30_000,
)

test.each([
  ['a password function', true],
  [MODULE, true],
  ['a function that creates clients', false],
])('with %s, whether a handler that does not end can be released at once is %s', async (kind, expected) => {
  const { lockstep } = await open(kind)
  const gate = new Gate()
  const queue = env.queue({ perform: () => gate.opened })
  const worker = env.create({ queues: [queue], shutdownTimeout: 10 }, lockstep)
  await worker.start()
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await started
  expect(await worker.stop()).toBe(false)
  expect(worker.releaseNow()).toBe(expected)
  const { claimed_by } = (await env.job(queue, 'a'))!
  expect(claimed_by === null).toBe(expected)
  gate.open()
  await eventually(async () => expect(await env.sql('SELECT FROM lockstep.processes')).toEqual([]))
})

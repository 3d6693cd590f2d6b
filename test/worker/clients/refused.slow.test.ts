import { once } from 'node:events'
import { inspect } from 'node:util'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { type CreateClient, Lockstep } from '../../../src/index.ts'
import { useWorkers } from '../../support/worker-environment.ts'

const env = useWorkers()
const SECRET = 'not-the-password-4711'
let secretUrl: string

beforeAll(() => {
  secretUrl = Object.assign(new URL(env.connectionString), { password: SECRET }).href
})

/** What the start of a worker is refused with. */
async function refusal(createClient: unknown): Promise<Error> {
  const { pool, logger } = env
  const lockstep = new Lockstep({ pool, createClient: createClient as CreateClient, logger })
  const worker = env.create({ queues: [env.queue({ perform() {} })] }, lockstep)
  return worker.start().then(
    () => new Error('it has started'),
    (error) => error,
  )
}

class Deaf extends pg.Client {
  override connect = undefined as never
}

async function connected(): Promise<pg.Client> {
  const client = await env.session()
  return client
}

const WRONG: Readonly<Record<string, readonly [createClient: () => unknown, problem: string]>> = {
  'a pool': [() => new pg.Pool({ connectionString: secretUrl }), 'it returned a pool'],
  'a text': [() => secretUrl, 'it returned a text'],
  nothing: [() => undefined, 'it returned undefined'],
  'options for a client': [
    () => ({ connectionString: secretUrl }),
    'it returned an object, which has no connect()',
  ],
  'a client without connect': [() => new Deaf(secretUrl), 'it returned a Deaf, which has no connect()'],
  'one that does not tell its session': [
    () => ({ connect() {}, query() {}, end() {}, on() {} }),
    'does not tell the `processID` of its session',
  ],
  'one that is connected': [connected, 'it returned one that is connected'],
  'one whose results come in binary': [
    () => new pg.Client({ connectionString: secretUrl, binary: true } as pg.ClientConfig),
    'it returned one with `binary: true`, but pg-lockstep reads results as text',
  ],
}

test.each(Object.keys(WRONG))('a worker for whose connections %s is created says so', async (wrong) => {
  const [createClient, problem] = WRONG[wrong]!
  const error = await refusal(createClient)
  expect(error).toMatchObject({ code: 'LOCKSTEP_BAD_OPTION', message: expect.stringContaining(problem) })
  expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(SECRET)
})

test('so does one that gets the same client twice', async () => {
  const client = new pg.Client(env.connectionString)
  env.later(() => client.end())
  const error = await refusal(() => client)
  expect(error).toMatchObject({
    code: 'LOCKSTEP_BAD_OPTION',
    message: expect.stringMatching(/it returned (the same one twice|one that is connected)$/),
  })
})

test('a client that is refused keeps no session', async () => {
  const ended: Promise<unknown>[] = []
  await refusal(async () => {
    const client = new pg.Client(env.connectionString)
    ended.push(once(client, 'end'))
    await client.connect()
    return client
  })
  expect(ended.length).toBeGreaterThan(0)
  await Promise.all(ended)
})

test('one whose function throws, or whose module can’t be loaded or exports none, says what failed', async () => {
  const failing = () => {
    throw new Error('no token')
  }
  expect(await refusal(failing)).toMatchObject({
    code: 'LOCKSTEP_CONNECTION',
    message: expect.stringContaining('`createClient` failed, so there is no connection: no token'),
  })
  expect(await refusal(new URL('./missing.ts', import.meta.url))).toMatchObject({
    code: 'LOCKSTEP_CONNECTION',
    message: expect.stringContaining('loading the module of `createClient` failed'),
  })
  expect(await refusal(new URL('./empty-module.ts', import.meta.url))).toMatchObject({
    code: 'LOCKSTEP_BAD_OPTION',
    message: expect.stringContaining('must have a default export'),
  })
})

test('one whose clients can’t connect says why, and never prints the password', async () => {
  const login = await refusal((options: object) => new pg.Client({ ...options, connectionString: secretUrl }))
  expect(login).toMatchObject({ code: 'LOCKSTEP_AUTHENTICATION' })
  const nowhere = Object.assign(new URL(secretUrl), { port: '1' }).href
  const reach = await refusal((options: object) => new pg.Client({ ...options, connectionString: nowhere }))
  expect(reach).toMatchObject({ code: 'LOCKSTEP_CONNECTION' })
  for (const told of [login, reach, env.warnings])
    expect(inspect(told, { depth: 10, showHidden: true })).not.toContain(SECRET)
})

test('one whose function never answers does not wait for it for ever', async () => {
  const error = await refusal(() => new Promise(() => {}))
  expect(error).toMatchObject({
    code: 'LOCKSTEP_CONNECTION',
    message: expect.stringContaining('timeout expired'),
  })
}, 60_000)

test('a function learns what the connection is for', async () => {
  const purposes = new Set<boolean>()
  const createClient: CreateClient = (options, { direct }) => {
    purposes.add(direct)
    return new pg.Client({ ...options, connectionString: env.connectionString })
  }
  const { pool, logger } = env
  const worker = env.create(
    { queues: [env.queue({ perform() {} })] },
    new Lockstep({ pool, createClient, logger }),
  )
  await worker.start()
  expect(purposes).toEqual(new Set([false, true]))
  const sessions = await env.sql(`SELECT FROM pg_stat_activity WHERE application_name = 'pg-lockstep'`)
  expect(sessions.length).toBeGreaterThanOrEqual(4)
})

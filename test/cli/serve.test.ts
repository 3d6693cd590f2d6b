import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { Lockstep } from '../../src/index.ts'
import { send } from '../http/lmstfy/wire.ts'
import { createMigrated } from '../support/database.ts'
import { Network } from '../support/network.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'
import { Command } from './command.ts'

vi.setConfig({ testTimeout: 60_000 })

let env: StoreEnvironment
let folder: string
const commands: Command[] = []

beforeAll(async () => {
  env = await openStore()
  folder = await mkdtemp(join(tmpdir(), 'lockstep-serve-'))
})
afterAll(async () => {
  await env.close()
  await rm(folder, { recursive: true })
})
afterEach(async () => {
  for (const { child, ended } of commands.splice(0)) {
    child.kill('SIGKILL')
    await ended
  }
})

function run(args: readonly string[], more: NodeJS.ProcessEnv = {}): Command {
  const command = new Command(['serve', ...args], { env: { DATABASE_URL: env.connectionString, ...more } })
  commands.push(command)
  return command
}

async function start(args: readonly string[] = [], more: NodeJS.ProcessEnv = {}) {
  const command = run(['--json', '--port', '0', '--admin-port', '0', ...args], more)
  const line = await command.line((one) => 'url' in one)
  const [port, adminPort] = [line.url, line.adminUrl].map((url) => Number(new URL(url as string).port)) as [
    number,
    number,
  ]
  const { json } = await send(adminPort, 'POST', '/token/ns?description=x')
  const headers = { 'x-token': json.token as string }
  return { command, port, adminPort, headers }
}

async function config(content: unknown): Promise<string> {
  const file = join(folder, `${Math.random()}.json`)
  await writeFile(file, typeof content === 'string' ? content : JSON.stringify(content))
  return file
}

test('it serves the API and the administration, and says how it is', async () => {
  const { port, adminPort, headers } = await start()
  expect((await send(port, 'PUT', '/api/ns/q', { headers, body: 'x' })).status).toBe(201)
  expect((await send(port, 'GET', '/api/ns/q', { headers })).status).toBe(200)
  expect((await send(port, 'GET', '/token/ns')).json).toEqual({ error: 'api not found' })
  for (const place of [port, adminPort])
    for (const path of ['/healthz', '/readyz']) expect((await send(place, 'GET', path)).text).toBe('ok')
  expect((await send(adminPort, 'GET', '/metrics')).text).toContain('infra_lmstfy_redis_publish_jobs')
})

test('its log has each request if that is switched on, and why one failed, without tokens and passwords', async () => {
  const { command, port, adminPort, headers } = await start()
  let requestId = ''
  await send(adminPort, 'POST', '/accesslog?status=enable')
  expect((await send(port, 'GET', `/api/ns/logged?token=${headers['x-token']}`)).status).toBe(404)
  await env.database.query('ALTER TABLE lockstep.lmstfy_tokens RENAME TO away')
  try {
    const headers = { 'x-token': 'of somebody else' }
    expect((await send(port, 'GET', '/api/ns/logged', { headers })).status).toBeGreaterThanOrEqual(500)
    const authorization = `Bearer lockstep_${'x'.repeat(43)}`
    await env.database.query('ALTER TABLE lockstep.api_tokens RENAME TO gone')
    const failed = await send(port, 'GET', '/v1/queues/some/stats?token=secret', {
      headers: { authorization },
    })
    expect(failed.status).toBe(500)
    requestId = failed.headers['x-request-id'] as string
    await send(port, 'GET', '/v1/any/thing', { headers: { authorization } })
    const { text } = await send(adminPort, 'GET', '/metrics')
    const codes = text.split('\n').filter((line) => /^infra_lmstfy_http_http_codes.*v1/.test(line))
    expect(codes).toEqual([
      'infra_lmstfy_http_http_codes{pool="default",namespace="",api="/v1/queues/:queue/stats",method="GET",code="500"} 1',
    ])
  } finally {
    await env.database.query('ALTER TABLE lockstep.away RENAME TO lmstfy_tokens')
    await env.database.query('ALTER TABLE IF EXISTS lockstep.gone RENAME TO api_tokens')
  }
  command.child.kill('SIGTERM')
  const { stderr } = await command.ended
  expect(stderr).toMatch(
    /^lockstep: GET \/api\/ns\/logged 404 requestId=\w{26} .*status=404 ms=\d+ address=127/m,
  )
  expect(stderr).toMatch(/^lockstep: a request failed: .*lmstfy_tokens.* does not exist.* requestId=\w{26}/m)
  expect(requestId).toMatch(/^\w{26}$/)
  expect(stderr).toMatch(
    new RegExp(
      `^lockstep: a request could not be answered: .*tokens.* does not exist.* requestId=${requestId}`,
      'm',
    ),
  )
  expect(stderr).toMatch(
    new RegExp(
      `^lockstep: GET /v1/queues/some/stats 500 requestId=${requestId} .*status=500 ms=\\d+ address=127`,
      'm',
    ),
  )
  for (const secret of [headers['x-token'], new URL(env.connectionString).password])
    expect(stderr).not.toContain(secret)
})

test('our own API is under /v1, for tokens of the pool that their prefix names', async () => {
  const file = await config({ pools: { default: '$SOME_URL', eu: '$SOME_URL' } })
  const { port } = await start(['--config', file], { SOME_URL: env.connectionString })
  const { token } = await env.lockstep.createToken({ name: 'gateway', scopes: ['produce', 'consume'] })
  for (const prefix of ['', 'eu:']) {
    const headers = { authorization: `Bearer ${prefix}${token}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ id: 'a', payload: { from: prefix } })
    expect((await send(port, 'POST', '/v1/queues/served/jobs', { headers, body })).status).toBeLessThan(300)
    const claim = JSON.stringify({ queues: 'served', lease: 30 })
    const claimed = await send(port, 'POST', '/v1/claim', { headers, body: claim })
    expect(claimed.json.jobs).toMatchObject([{ id: 'a', payloads: [{ payload: { from: prefix } }] }])
    const settled = JSON.stringify({ queue: 'served', id: 'a', fence: claimed.json.jobs[0].fence })
    expect((await send(port, 'POST', '/v1/complete', { headers, body: settled })).status).toBe(200)
  }
  const wrong = await send(port, 'POST', '/v1/claim', {
    headers: { authorization: `Bearer nowhere:${token}` },
    body: '{}',
  })
  expect(wrong.status).toBe(401)
})

test('/v1 leaves jobs in the pool that the prefix names, also where lmstfy’s API moves them', async () => {
  const other = await createMigrated()
  try {
    const file = await config({ pools: { eu: '$EU_URL', default: { url: '$SOME_URL', migrateTo: 'eu' } } })
    const more = { SOME_URL: env.connectionString, EU_URL: other.connectionString }
    const { command, port, headers } = await start(['--config', file], more)
    const { token } = await env.lockstep.createToken({ name: 'staying', scopes: ['produce'] })
    await send(port, 'POST', '/v1/queues/ns%2Fstaying/jobs', {
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: '{"id": "of /v1"}',
    })
    const { job_id } = (await send(port, 'PUT', '/api/ns/staying', { headers, body: 'x' })).json
    const eu = new Lockstep({ connectionString: other.connectionString })
    const ids = async (lockstep: Lockstep) =>
      (await lockstep.find('ns/staying', {})).items.map(({ id }) => id)
    expect(await ids(env.lockstep)).toEqual(['of /v1'])
    expect(await ids(eu)).toEqual([job_id])
    await eu.close()
    command.child.kill('SIGTERM')
    await command.ended
  } finally {
    await other.drop()
  }
})

test('a queue of lmstfy’s API has one shard, so that jobs keep their order, also if /v1 is asked for it first', async () => {
  const { port, headers } = await start()
  const { token } = await env.lockstep.createToken({ name: 'first', scopes: ['produce', 'consume'] })
  const post = (path: string, body: unknown) =>
    send(port, 'POST', `/v1${path}`, {
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  await post('/queues/ns%2Fpushed/jobs', { id: 'a' })
  await post('/claim', { queues: 'ns/claimed' })
  await post('/claim', { queues: { 'ns/drawn': 1, plain: 1 } })
  await post('/claim', { queues: ['not/of/lmstfy'] })
  await send(port, 'PUT', '/api/ns/claimed', { headers, body: 'x' })
  const shards = await env.database.query<{ name: string; shards: number }>(
    "SELECT name, shards FROM lockstep.queues WHERE name ~ '^(ns/(pushed|claimed|drawn)|plain|not/of/lmstfy)$' ORDER BY name",
  )
  expect(shards.map((row) => `${row.name} ${row.shards}`)).toEqual([
    'not/of/lmstfy 16',
    'ns/claimed 1',
    'ns/drawn 1',
    'ns/pushed 1',
    'plain 16',
  ])
})

test('defaults of the database for others’ statements end none of its own', async () => {
  const url = new URL(env.connectionString)
  url.searchParams.set('options', '-c statement_timeout=100 -c lock_timeout=100 -c synchronous_commit=off')
  const { port } = await start([], { DATABASE_URL: url.href })
  const { token } = await env.lockstep.createToken({ name: 'patient', scopes: ['produce'] })
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const push = (payload: number) =>
    send(port, 'POST', '/v1/queues/patient/jobs', { headers, body: JSON.stringify({ id: 'a', payload }) })
  expect((await push(1)).status).toBe(200)
  const holder = await env.transaction()
  await holder.query("SELECT lockstep.enqueue('patient', 'a', '2')")
  const pushing = push(3)
  await vi.waitFor(async () => {
    const waiting = await env.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
       AND clock_timestamp() - query_start > interval '0.2 s'`,
    )
    expect(waiting).toHaveLength(1)
  }, 4_000)
  await holder.query('COMMIT')
  expect((await pushing).status).toBe(200)
  await env.endSessions()
})

test('at SIGTERM, consumes that wait are answered, requests under way end, and the process too', async () => {
  const { command, port, headers } = await start()
  const waiting = send(port, 'GET', '/api/ns/quiet?timeout=600', { headers })
  const slow = http.request({
    port,
    method: 'PUT',
    path: '/api/ns/slow',
    headers: { ...headers, 'content-length': '4', expect: '100-continue' },
  })
  slow.flushHeaders()
  await once(slow, 'continue')
  slow.write('ab')
  const answered = new Promise<number>((resolve) =>
    slow.once('response', (response) => resolve(response.statusCode!)),
  )
  await vi.waitFor(async () => {
    const rows = await env.database.query("SELECT 1 FROM lockstep.queues WHERE name = 'ns/quiet'")
    expect(rows).toHaveLength(1)
  }, 10_000)
  command.child.kill('SIGTERM')
  expect((await waiting).json).toEqual({ msg: 'no job available' })
  slow.end('cd')
  expect(await answered).toBe(201)
  expect((await command.ended).code).toBe(0)
  const rows = await env.database.query(
    "SELECT 1 FROM lockstep.jobs j JOIN lockstep.queues q USING (queue_id) WHERE name = 'ns/slow'",
  )
  expect(rows).toHaveLength(1)
})

test('a file names pools, defaults and the user of the administration; secrets come from the environment', async () => {
  const file = await config({
    pools: { default: '$SOME_URL', eu: { url: '$SOME_URL', schema: 'lockstep' } },
    defaults: { tries: 3 },
    admin: { username: 'ops', password: '$SOME_PASSWORD' },
  })
  const more = { SOME_URL: env.connectionString, SOME_PASSWORD: 'secret' }
  const command = run(['--json', '--port', '0', '--admin-port', '0', '--config', file], more)
  const line = await command.line((one) => 'url' in one)
  const [port, adminPort] = [line.url, line.adminUrl].map((url) => Number(new URL(url as string).port)) as [
    number,
    number,
  ]
  expect((await send(adminPort, 'GET', '/token/ns')).status).toBe(401)
  const authorization = `Basic ${Buffer.from('ops:secret').toString('base64')}`
  const { json } = await send(adminPort, 'POST', '/token/ns?description=x&pool=eu', {
    headers: { authorization },
  })
  const headers = { 'x-token': json.token }
  await send(port, 'PUT', '/api/ns/configured', { headers, body: 'x' })
  expect((await send(port, 'GET', '/api/ns/configured', { headers })).json.remain_tries).toBe(2)
})

test.each([
  ['{', /is no JSON/],
  ['[]', /must hold a JSON object/],
  [{ prot: 1 }, /unknown field "prot": did you mean "port"/],
  [{ port: 70_000 }, /port must be a whole number/],
  [{ pools: { eu: 'postgres://x' } }, /with a pool "default"/],
  [{ pools: { default: { uri: 'x' } } }, /unknown field "uri"/],
  [{ pools: { default: '$NOT_THERE' } }, /NOT_THERE is not set/],
  [{ pools: { default: 'mysql://user:secret@host/x' } }, /must look like postgresql/],
  [{ pools: { default: { url: 'postgres://h/x', migrateTo: 'eu' } } }, /another pool/],
  [{ defaults: { tires: 1 } }, /tires/],
])('a configuration of %j is refused, with what to do', async (content, message) => {
  const { code, stderr } = await run(['--config', await config(content)]).ended
  expect(stderr).toMatch(message)
  expect(stderr).not.toContain('secret')
  expect(code).not.toBe(0)
})

test('a pool whose database is away leaves the others served, also at the start, and is served once it is back', async () => {
  const network = await Network.to(env.connectionString)
  try {
    network.cut()
    const file = await config({ pools: { default: '$SOME_URL', eu: '$EU_URL' } })
    const more = { SOME_URL: env.connectionString, EU_URL: network.connectionString }
    const { command, port, headers } = await start(['--config', file], more)
    const { token } = await env.lockstep.createToken({ name: 'away', scopes: ['produce'] })
    const push = (prefix: string) =>
      send(port, 'POST', '/v1/queues/away/jobs', {
        headers: { authorization: `Bearer ${prefix}${token}`, 'content-type': 'application/json' },
        body: '{"id": "a"}',
      })
    const ready = () => send(port, 'GET', '/readyz')
    expect(await ready()).toMatchObject({ status: 200, text: 'ok, but pools do not answer: eu' })
    expect((await send(port, 'PUT', '/api/ns/q', { headers, body: 'x' })).status).toBe(201)
    expect((await push('')).status).toBe(200)
    expect(await push('eu:')).toMatchObject({ status: 503, headers: { 'retry-after': expect.any(String) } })
    network.restore()
    await vi.waitFor(async () => expect((await ready()).text).toBe('ok'), 20_000)
    expect((await push('eu:')).status).toBe(200)
    command.child.kill('SIGTERM')
    expect((await command.ended).stderr).toMatch(/the pool "eu" is not served until it answers: /)
  } finally {
    network.close()
  }
})

test('where no database answers, it does not start, or is no longer ready', async () => {
  const network = await Network.to(env.connectionString)
  try {
    const { port } = await start([], { DATABASE_URL: network.connectionString })
    network.cut()
    await vi.waitFor(
      async () =>
        expect(await send(port, 'GET', '/readyz')).toMatchObject({
          status: 503,
          text: 'no database answers',
        }),
      20_000,
    )
    const { code } = await run(['--port', '0', '--admin-port', '0'], {
      DATABASE_URL: network.connectionString,
    }).ended
    expect(code).toBe(1)
  } finally {
    network.close()
  }
})

test('a database that was not migrated is refused, with what to do', async () => {
  const { code, stdout, stderr } = await run([
    '--json',
    '--port',
    '0',
    '--admin-port',
    '0',
    '--schema',
    'none',
  ]).ended
  expect(stderr).toMatch(/run `lockstep migrate`/)
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
})

import { expect, test } from 'vitest'
import { Lockstep } from '../../../src/index.ts'
import { eventually } from '../../support/worker-environment.ts'
import { send, useGateway } from './wire.ts'

const { env, gateway } = useGateway()
const TOKEN = 'a-token-of-twenty-characters'
let names = 0

/** A namespace for one test. */
const namespace = () => {
  names += 1
  return `admin-${names}`
}

test('a token is created from the query or a form, with a description', async () => {
  const { admin, port } = await gateway()
  const ns = namespace()
  const created = await admin('POST', `/token/${ns}?description=one`)
  expect(created.status).toBe(201)
  expect(created.json).toEqual({ token: expect.stringMatching(/^[0-9A-HJKMNP-TV-Z]{26}$/) })
  const form = {
    body: `description=two&token=${TOKEN}`,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  }
  expect((await admin('POST', `/token/${ns}`, form)).json).toEqual({ token: TOKEN })
  expect((await admin('GET', `/token/${ns}`)).json).toEqual({
    tokens: { [created.json.token]: 'one', [TOKEN]: 'two' },
  })
  expect((await admin('GET', `/token/${ns}?pool=default`)).json.tokens).toHaveProperty(`default:${TOKEN}`)
  const { status } = await send(port, 'GET', `/api/${ns}/q`, { headers: { 'x-token': TOKEN } })
  expect(status).toBe(404)
})

test('what is wrong with a new token is said in lmstfy’s words', async () => {
  const { admin } = await gateway()
  const ns = namespace()
  await admin('POST', `/token/${ns}?description=x&token=${TOKEN}`)
  const errors = [
    [`/token/${ns}`, 'invalid description'],
    [`/token/${ns}?description=%00`, 'invalid description'],
    [`/token/${ns}?description=x&token=%00${TOKEN}`, 'invalid token'],
    [`/token/${ns}?description=x&token=short`, 'the user token was too short'],
    [`/token/${'n'.repeat(256)}?description=x`, 'the namespace name was too long'],
    ['/token/n.s?description=x', 'namespace name contains forbidden characters'],
    [`/token/${ns}?description=x&pool=nowhere`, 'the pool was not exists'],
    [`/token/${ns}?description=x&token=nowhere:${TOKEN}`, 'the pool was not exists'],
    [`/token/${ns}?description=x&token=${TOKEN}`, 'the token has already existed'],
  ] as const
  for (const [path, error] of errors) {
    const { status, json } = await admin('POST', path)
    expect([status, json]).toEqual([400, { error }])
  }
  expect((await admin('GET', `/token/${ns}?pool=nowhere`)).json).toEqual({ error: 'the pool was not exists' })
  expect((await admin('DELETE', `/token/${ns}/nowhere:${TOKEN}`)).status).toBe(400)
  const body = '{"read": 1, "write": 1, "interval": 1}'
  expect((await admin('PUT', `/token/${ns}/%00/limit`, { body })).json).toEqual({ error: 'invalid token' })
})

test('deleting a token takes its limit along, and works twice', async () => {
  const { admin } = await gateway()
  const ns = namespace()
  await admin('POST', `/token/${ns}?description=x&token=${TOKEN}`)
  const path = `/token/${ns}/${TOKEN}`
  await admin('POST', `${path}/limit`, { body: '{"read":1,"write":1,"interval":1}' })
  expect((await admin('DELETE', path)).status).toBe(204)
  expect((await admin('DELETE', path)).status).toBe(204)
  expect((await admin('GET', `${path}/limit`)).json).toBeNull()
  expect((await admin('GET', `/token/${ns}`)).json).toEqual({ tokens: {} })
})

test('a limit is added, replaced, shown and deleted', async () => {
  const { admin } = await gateway()
  const ns = namespace()
  const path = `/token/${ns}/${TOKEN}/limit`
  const none = await admin('GET', path)
  expect([none.status, none.json]).toEqual([404, null])
  const limiter = { read: 5, write: 0, interval: 10 }
  const added = await admin('POST', path, { body: JSON.stringify(limiter) })
  expect([added.status, added.json]).toEqual([201, { limiter }])
  expect((await admin('POST', path, { body: JSON.stringify(limiter) })).status).toBe(500)
  const other = { read: 6, write: 7, interval: 8 }
  const replaced = await admin('PUT', path, { body: JSON.stringify(other) })
  expect([replaced.status, replaced.json]).toEqual([200, { limiter: other }])
  const shown = await admin('GET', path)
  expect([shown.status, shown.json]).toEqual([200, other])
  expect((await admin('GET', '/limits?force_update=true')).json).toContainEqual({
    namespace: ns,
    token: TOKEN,
    limiter: other,
  })
  const gone = await admin('DELETE', path)
  expect([gone.status, gone.json]).toEqual([200, { msg: 'success' }])
  expect((await admin('GET', path)).status).toBe(404)
})

test.each([
  [{ interval: 5 }, 400, { limiter: { read: 0, write: 0, interval: 5 } }],
  [{ read: 1 }, 400, { error: 'interval should be > 0' }],
  [{ read: 1, write: 1, interval: 1e12 }, 400, { error: 'interval should be <= 31536000' }],
  [{ read: 1, write: 1, interval: -1 }, 500, { error: expect.any(String) }],
  [{ read: -1, write: 1, interval: 1 }, 500, { error: expect.any(String) }],
  [{ read: 1.5, write: 1, interval: 1 }, 400, { error: expect.any(String) }],
])('a limit of %j is %i', async (body, status, json) => {
  const { admin } = await gateway()
  for (const method of ['POST', 'PUT']) {
    const answer = await admin(method, `/token/any/${TOKEN}/limit`, { body: JSON.stringify(body) })
    expect([answer.status, answer.json]).toEqual([status, json])
  }
  expect((await admin('POST', `/token/any/${TOKEN}/limit`, { body: 'no JSON' })).status).toBe(400)
})

test('pools, version and queues are told', async () => {
  const { admin, publish } = await gateway()
  expect((await admin('GET', '/pools')).json).toEqual(['default'])
  expect((await admin('GET', '/version')).json).toMatchObject({ version: expect.stringMatching(/^\d+\./) })
  await publish('told', 'x')
  await env.lockstep.enqueue((await import('../../../src/index.ts')).defineQueue('ours'), { id: 'a' })
  const info = await admin('GET', '/info?pool=default')
  expect(info.headers['content-type']).toBe('text/plain; charset=utf-8')
  expect(JSON.parse(info.text)).toMatchObject({ ns: expect.arrayContaining(['told']) })
  expect(info.text).not.toContain('ours')
})

test('the access log is switched on and off, and shows no token', async () => {
  const lines: string[] = []
  const logger = {
    ...env.logger,
    info: (fields: object, message: string) => void lines.push(JSON.stringify([fields, message])),
  }
  const { Lockstep } = await import('../../../src/index.ts')
  const lockstep = new Lockstep({ connectionString: env.connectionString, logger })
  env.later(() => lockstep.close())
  const { admin, api, port, token } = await gateway({ pools: { default: lockstep } })
  expect((await admin('GET', '/accesslog')).json).toEqual({ status: 'disabled' })
  expect((await admin('POST', '/accesslog?status=maybe')).json).toEqual({ error: 'invalid status' })
  await api('GET', 'logged/size')
  expect((await admin('POST', '/accesslog?status=enable')).json).toEqual({ status: 'enabled' })
  const { headers } = await send(port, 'GET', `/api/ns/logged?token=${token}`)
  expect((await admin('POST', '/accesslog?status=disable')).json).toEqual({ status: 'disabled' })
  expect(lines).toHaveLength(1)
  expect(lines[0]).toContain('GET /api/ns/logged 404')
  expect(lines[0]).toContain(headers['x-request-id'])
  expect(lines[0]).not.toContain(token)
})

test('where a user is named, tokens, limits and the switch of the access log need the password', async () => {
  const { adminPort } = await gateway({ admin: { username: 'ops', password: 'secret' } })
  const ask = (method: string, path: string, user?: string) => {
    const headers: Record<string, string> = user
      ? { authorization: `Basic ${Buffer.from(user).toString('base64')}` }
      : {}
    return send(adminPort, method, path, { headers })
  }
  for (const [method, path] of [
    ['POST', '/token/ns?description=x'],
    ['GET', '/token/ns'],
    ['GET', '/limits'],
    ['POST', '/accesslog?status=enable'],
  ] as const) {
    for (const user of [undefined, 'ops:wrong', 'other:secret', 'ops'])
      expect((await ask(method, path, user)).status).toBe(401)
    expect((await ask(method, path, 'ops:secret')).status).toBeLessThan(300)
  }
  for (const path of ['/accesslog', '/pools', '/version', '/metrics'])
    expect((await ask('GET', path)).status).toBe(200)
})

test('metrics have lmstfy’s names', async () => {
  const { admin, api, publish, consume } = await gateway()
  await publish('measured', 'x')
  await publish('measured', 'x', '?delay=60')
  const { job_id } = await consume('measured')
  await api('DELETE', `measured/job/${job_id}`)
  await consume('measured,other')
  const { text } = await admin('GET', '/metrics')
  const labels = 'pool="default",namespace="ns",queue="measured"'
  for (const line of [
    'infra_lmstfy_redis_publish_jobs{pool="default"} 2',
    `infra_lmstfy_redis_publish_queue_jobs{${labels}} 2`,
    'infra_lmstfy_redis_timer_add_jobs{pool="default"} 1',
    'infra_lmstfy_redis_queue_direct_push_jobs{pool="default"} 1',
    `infra_lmstfy_redis_consume_queue_jobs{${labels}} 1`,
    'infra_lmstfy_redis_pool_delete_jobs{pool="default"} 1',
    `infra_lmstfy_redis_timer_sizes{${labels}} 1`,
    `infra_lmstfy_redis_queue_sizes{${labels}} 0`,
    `infra_lmstfy_redis_deadletter_sizes{${labels}} 0`,
    `infra_lmstfy_redis_job_elapsed_ms_count{${labels}} 1`,
    `infra_lmstfy_redis_job_ack_elapsed_ms_count{${labels}} 1`,
    'infra_lmstfy_http_http_codes{pool="default",namespace="ns",api="/api/:namespace/:queue",method="PUT",code="201"} 2',
    'infra_lmstfy_http_latency_milliseconds_bucket{le="15",pool="default"',
    '{le="22888.18359375",',
    '{le="27573.984375",',
  ])
    expect(text).toContain(line)
})

test('deliveries after a delay or a ttr are those that lmstfy’s timer would have brought', async () => {
  const { admin, publish, api } = await gateway()
  const due = async () => {
    const { text } = await admin('GET', '/metrics')
    expect(text).toContain('infra_lmstfy_redis_timer_full_batches{pool="default"} 0')
    return Number(/^infra_lmstfy_redis_timer_due_jobs\{pool="default"\} (\d+)$/m.exec(text)?.[1] ?? 0)
  }
  await publish('at-once', 'x', '?tries=2')
  expect((await api('GET', 'at-once?ttr=0')).status).toBe(200)
  expect(await due()).toBe(0)
  expect((await api('GET', 'at-once?timeout=10')).status).toBe(200)
  expect(await due()).toBe(1)
  await publish('delayed', 'x', '?delay=1')
  expect((await api('GET', 'delayed?timeout=10')).status).toBe(200)
  expect(await due()).toBe(2)
})

test('B7: tasks leave no metrics for each of them, and neither do queues that are gone', async () => {
  const { admin, api, publish, consume } = await gateway()
  const read = async () => (await admin('GET', '/metrics')).text
  await publish('deleted', 'x')
  await api('DELETE', `deleted/job/${(await consume('deleted')).job_id}`)
  for (let n = 0; n < 2; n += 1) {
    const task = await publish('asked', 'question')
    await publish(task, 'answer')
    const { job_id } = await consume(task)
    await api('DELETE', `${task}/job/${job_id}`)
    expect(await read()).not.toContain(task)
  }
  const replies = 'pool="default",namespace="ns",queue=":job_id"'
  expect(await read()).toContain(`infra_lmstfy_redis_consume_queue_jobs{${replies}} 2`)
  expect(await read()).toContain(`infra_lmstfy_redis_queue_sizes{${replies}} 0`)
  expect(await read()).toContain('queue="deleted"')
  await eventually(() => env.lockstep.deleteQueue('ns/deleted'))
  await eventually(async () => expect(await read()).not.toContain('queue="deleted"'))
})

test('while the database is away, the administration says when to come back', async () => {
  const away = new Lockstep({ connectionString: 'postgres://nobody@127.0.0.1:1/none', logger: env.logger })
  env.later(() => away.close())
  const { admin } = await gateway({ pools: { default: away } })
  const { status, headers, json } = await admin('GET', '/token/ns')
  expect([status, headers['retry-after'], json]).toEqual([503, '1', { error: 'internal error' }])
})

test('what isn’t there is 404', async () => {
  const { admin } = await gateway()
  for (const [method, path] of [
    ['GET', '/'],
    ['GET', '/token'],
    ['PUT', '/pools'],
    ['GET', '/token/a/b/c'],
  ] as const)
    expect((await admin(method, path)).status).toBe(404)
})

test('/debug/pprof: profiles of the gateway, one at a time', { tags: 'slow' }, async () => {
  const { admin } = await gateway()
  expect(await admin('GET', '/debug/pprof/')).toMatchObject({ status: 200 })
  const [taken, refused] = await Promise.all([
    admin('GET', '/debug/pprof/profile?seconds=1'),
    admin('GET', '/debug/pprof/heap?seconds=1'),
  ])
  expect([taken.status, refused.status].sort()).toEqual([200, 409])
  const heap = await admin('GET', '/debug/pprof/heap?seconds=1')
  expect(heap.json).toHaveProperty('head.selfSize')
  const { json } = await admin('GET', '/debug/pprof/profile?seconds=1')
  expect(json.samples.length).toBeGreaterThan(0)
  for (const seconds of ['0', '-1', '301', 'x', ''])
    expect((await admin('GET', `/debug/pprof/profile?seconds=${seconds}`)).status).toBe(400)
  for (const name of ['cmdline', 'goroutine', '__proto__', 'toString'])
    expect((await admin('GET', `/debug/pprof/${name}`)).status).toBe(404)
})

import { describe, expect, test } from 'vitest'
import { ROUTES } from '../../../src/http/lmstfy/routes.ts'
import { eventually } from '../../support/worker-environment.ts'
import { raw } from '../raw.ts'
import { type Answered, decoded, type Gateway, send, useGateway } from './wire.ts'

const { env, gateway } = useGateway()
const ULID = /^[0-9A-HJKMNP-TV-Z]{26}$/
const LONG = 'n'.repeat(256)
const LARGE = Buffer.alloc(1024 * 1024 + 1)
/** Node sends it on its own for PUT alone. */
const LENGTH = { 'content-length': `${LARGE.length}` }

/** A route as a request line has it. */
const lineOf = ({ method, path }: { method: string; path: string }, namespace = 'ns', queue = 'q') =>
  [method, path.replace(':namespace', namespace).replace(':queue', queue).replace(':job_id', 'id')] as const

const isConsume = ({ method, path }: { method: string; path: string }) =>
  method === 'GET' && path.endsWith(':queue')
const ALL = ROUTES.map((route) => [route.method, route.path, route] as const)

describe('each request', () => {
  test.each(ALL)('W1, W3: %s %s refuses names in lmstfy’s words, before all else', async (_, __, route) => {
    const { port } = await gateway()
    const ask = async (namespace: string, queue: string) => {
      const [method, path] = lineOf(route, namespace, queue)
      const { status, json } = await send(port, method, `${path}?token=nowhere:x&tries=0`, {
        headers: LENGTH,
        body: LARGE,
      })
      return [status, json.error]
    }
    const [tooLong, badNamespace, badQueue] = [
      'namespace or queue name too long',
      'namespace name contains forbidden characters',
      'queue name contains forbidden characters',
    ]
    const poolComesNext = [404, 'pool not found']
    expect(await ask(LONG, 'q')).toEqual(isConsume(route) ? poolComesNext : [400, tooLong])
    expect(await ask('ns', LONG)).toEqual(isConsume(route) ? poolComesNext : [400, tooLong])
    expect(await ask('ns', '_q')).toEqual(isConsume(route) ? poolComesNext : [400, badQueue])
    expect(await ask('ns', 'a,b')).toEqual(isConsume(route) ? poolComesNext : [400, badQueue])
    expect(await ask('n.s', 'q')).toEqual([400, badNamespace])
    expect(await ask('n,s', 'q')).toEqual([400, badNamespace])
    expect(await ask('n.s', 'q.')).toEqual([400, badNamespace])
    expect(await ask('ns', 'q.')).toEqual([400, badQueue])
    expect(await ask('ns', 'q')).toEqual(poolComesNext)
  })

  test.each(ALL)('W1, W2: then %s %s refuses tokens, but for sizes', async (_, __, route) => {
    const { port, token, admin } = await gateway()
    const { json } = await admin('POST', '/token/others?description=x')
    const [method, path] = lineOf(route)
    const ask = async (query: string, headers: Record<string, string> = {}) => {
      const answer = await send(port, method, `${path}?tries=0&ttr=x&limit=0${query}`, {
        headers: { ...headers, ...LENGTH },
        body: LARGE,
      })
      return [answer.status, answer.json?.error]
    }
    const allowed = await ask('', { 'x-token': token })
    const refused = (error: string) => (route.isPublic ? allowed : [401, error])
    expect(allowed[0]).not.toBe(401)
    expect(await ask('')).toEqual(refused('token not found'))
    expect(await ask('', { 'x-token': 'default:' })).toEqual(refused('token not found'))
    expect(await ask('&token=wrong')).toEqual(refused('invalid token'))
    expect(await ask('', { 'x-token': json.token })).toEqual(refused('invalid token'))
    expect(await ask(`&token=${token}`, { 'x-token': 'wrong' })).toEqual(refused('invalid token'))
    expect(await ask(`&token=${token}`, { 'x-token': '' })).toEqual(allowed)
    expect(await ask(`&token=default:${token}`)).toEqual(allowed)
  })

  test('W1: then come limits, then parameters, then the body', async () => {
    const { api, admin, token } = await gateway()
    const ask = async (method: string, path: string, body?: Buffer) => {
      const { status, json } = await api(method, path, { body })
      return [status, json.error ?? json.msg]
    }
    expect(await ask('PUT', 'ordered?tries=0', LARGE)).toEqual([400, "tries shouldn't be zero"])
    expect(await ask('PUT', 'ordered/bulk?ttl=x', LARGE)).toEqual([400, 'invalid ttl'])
    expect(await ask('PUT', 'ordered', LARGE)).toEqual([413, 'body too large'])
    await admin('POST', `/token/ns/${token}/limit`, { body: '{"read": 1, "write": 1, "interval": 600}' })
    expect((await api('PUT', 'ordered', { body: 'x' })).status).toBe(201)
    expect((await api('GET', 'ordered')).status).toBe(200)
    const reached = (side: string) => [
      429,
      `token(${token}) ${side} reach the limit rate, please retry later`,
    ]
    expect(await ask('PUT', 'ordered?tries=0', LARGE)).toEqual(reached('produce'))
    expect(await ask('PUT', 'ordered/bulk?tries=0', LARGE)).toEqual(reached('produce'))
    expect(await ask('GET', 'ordered?ttr=x')).toEqual(reached('consume'))
    // Nothing else counts.
    for (let n = 0; n < 3; n += 1) {
      expect((await api('PUT', 'ordered/job/a', { body: 'x' })).status).toBe(201)
      expect((await api('GET', 'ordered/peek')).status).toBe(200)
      expect((await api('DELETE', 'ordered/job/a')).status).toBe(204)
    }
  })

  test('W4: has an id of its own in its answer, whatever that is, and JSON but where it is empty', async () => {
    const { api, port } = await gateway()
    const answers: Answered[] = [
      await api('PUT', 'numbered', { body: 'x' }),
      await api('PUT', 'numbered', { body: LARGE }),
      await api('PUT', 'numbered?tries=0', { body: 'x' }),
      await api('GET', 'numbered'),
      await api('GET', 'numbered'),
      await api('GET', 'numbered/size'),
      await api('DELETE', 'numbered/job/x'),
      await api('DELETE', 'numbered'),
      await send(port, 'PUT', '/api/ns/numbered', { body: 'x' }),
      await send(port, 'GET', '/other'),
    ]
    expect(answers.map(({ status }) => status)).toEqual([201, 413, 400, 200, 404, 200, 204, 204, 401, 404])
    for (const { status, headers, text } of answers) {
      expect(headers['x-request-id']).toMatch(ULID)
      if (status === 204) expect([text, headers['content-type']]).toEqual(['', undefined])
      else expect(headers['content-type']).toBe('application/json; charset=utf-8')
    }
    expect(new Set(answers.map(({ headers }) => headers['x-request-id'])).size).toBe(answers.length)
  })
})

test('W7: what a request doesn’t say is as the gateway was told', { tags: 'slow' }, async () => {
  const { api, publish, consume } = await gateway({
    defaults: { ttl: 50, delay: 1, tries: 2, ttr: 1, timeout: 30 },
  })
  const id = await publish('defaults', 'x')
  const first = await consume('defaults')
  expect(first).toMatchObject({ job_id: id, remain_tries: 1 })
  expect(first.elapsed_ms).toBeGreaterThanOrEqual(990)
  expect(first.ttl).toBeGreaterThan(30)
  expect(first.ttl).toBeLessThan(50)
  expect(await consume('defaults')).toMatchObject({ job_id: id, remain_tries: 0 })
  await eventually(async () =>
    expect((await api('GET', 'defaults/deadletter')).json.deadletter_head).toBe(id),
  )
  await api('PUT', 'defaults/deadletter')
  expect((await consume('defaults')).ttl).toBeGreaterThan(30)
  await publish('defaults', 'said', '?ttl=0&delay=0&tries=1')
  expect(await consume('defaults', '?ttr=60&timeout=0')).toMatchObject({ ttl: 0, remain_tries: 0 })
})

describe('PUT', () => {
  test.each(['0', '1', '86400', '4294967295'])('takes each unsigned number: %s', async (number) => {
    const { api } = await gateway()
    expect((await api('PUT', `numbers?ttl=${number}`, { body: 'x' })).status).toBe(201)
    expect((await api('PUT', `numbers?ttl=0&delay=${number}`, { body: 'x' })).status).toBe(201)
    expect((await api('GET', `numbers?ttr=${number}&timeout=0`)).status).toBe(200)
  })

  test('tries are 1 to 65535, ttl may equal delay, and freeze_tries is ignored', async () => {
    const { api } = await gateway()
    for (const tries of ['1', '65535', '007']) {
      expect((await api('PUT', `tries?tries=${tries}&freeze_tries=true`, { body: 'x' })).status).toBe(201)
      expect((await api('GET', 'tries')).json).toMatchObject({ remain_tries: Number(tries) - 1 })
    }
    expect((await api('PUT', 'tries?ttl=60&delay=60', { body: 'x' })).status).toBe(201)
  })

  test('the query of a bulk, and its attributes, are those of each job', async () => {
    const { api, consume } = await gateway()
    const headers = {
      'enable-job-version': 'yes',
      ...Object.fromEntries(Array.from({ length: 16 }, (_, n) => [`Job-Attr-${n}`, `${n}`])),
    }
    const body = JSON.stringify(Array.from({ length: 64 }, (_, n) => n))
    const { status, json } = await api('PUT', 'each/bulk?tries=3&ttl=0&delay=3600', { body, headers })
    expect([status, json.job_ids.length]).toEqual([201, 64])
    for (const id of json.job_ids) expect(id).toMatch(/^1[0-9A-HJKMNP-TV-Z]{26}$/)
    expect(await consume('each')).toBeNull()
    await env.lockstep.performNow('ns/each', {})
    const jobs: Record<string, unknown>[] = await consume('each', '?count=100&timeout=5')
    expect(jobs.map(({ job_id }) => job_id)).toEqual(json.job_ids)
    for (const [n, { data, ttl, remain_tries, attributes }] of jobs.entries())
      expect([decoded(data as string), ttl, remain_tries, Object.keys(attributes as object).length]).toEqual([
        ...[`${n}`, 0, 2, 16],
      ])
    const many = { ...headers, 'job-attr-16': 'x' }
    for (const path of ['each', 'each/bulk', 'each/job/a'])
      expect((await api('PUT', path, { body: '[1]', headers: many })).json).toEqual({
        error: 'too many attributes, cannot exceed 16',
      })
  })

  test('attributes are shown by each request that shows a job', async () => {
    const { api } = await gateway()
    const headers = { 'enable-job-version': 'YES', 'Job-Attr-Kind': 'a' }
    const { job_id } = (await api('PUT', 'kinds', { body: 'x', headers })).json
    for (const path of ['kinds/peek', `kinds/job/${job_id}`, 'kinds'])
      expect((await api('GET', path)).json).toMatchObject({ job_id, attributes: { kind: 'a' } })
  })

  test('a bulk that is too large as a whole is refused before it comes', async () => {
    const { port, token } = await gateway()
    const head = `PUT /api/ns/whole/bulk HTTP/1.1\r\nHost: x\r\nX-Token: ${token}\r\nContent-Length: 70000000\r\n\r\n`
    expect(await raw(port, head, '[')).toMatch(/^HTTP\/1.1 413 .*\{"error":"body too large"\}/s)
  })

  test.each([
    ['waits', ''],
    ['is delayed', '?delay=60'],
    ['is in work', ''],
    ['is dead', ''],
  ])('republishing a job that %s ends it, and makes a new one', async (state, query) => {
    const opened = await gateway()
    const { api, publish, consume } = opened
    const queue = state.replaceAll(' ', '-')
    const old = await publish(queue, 'old', query)
    if (state === 'is in work') await consume(queue, '?ttr=60')
    if (state === 'is dead') await died(opened, queue, old)
    const { status, json } = await api('PUT', `${queue}/job/${old}?tries=2`, { body: 'new' })
    expect(status).toBe(201)
    expect(await consume(queue)).toMatchObject({ job_id: json.job_id, remain_tries: 1 })
    expect((await api('GET', `${queue}/job/${old}`)).status).toBe(404)
    expect((await env.lockstep.findDead(`ns/${queue}`, {})).items).toEqual([])
    // In another queue, its id names nothing.
    const kept = await publish(queue, 'kept')
    await api('PUT', `${queue}-2/job/${kept}`, { body: 'x' })
    expect(await consume(queue)).toMatchObject({ job_id: kept })
  })
})

async function died({ api, consume }: Gateway, queue: string, id: string): Promise<void> {
  await consume(queue, '?ttr=0')
  await eventually(async () => {
    expect((await api('GET', `${queue}/deadletter`)).json.deadletter_head).toBe(id)
  })
}

describe('clients', () => {
  test('Go: a consume of one is an object, of more a list, and of none 404', async () => {
    const { api, publish } = await gateway()
    const ask = (count: number) => api('GET', `go?ttr=10&timeout=0&count=${count}`)
    for (let n = 0; n < 3; n += 1) await publish('go', 'x', '?ttl=3600&tries=1&delay=0')
    expect((await ask(1)).json).toMatchObject({ msg: 'new job', data: 'eA==' })
    expect((await ask(100)).json).toHaveLength(2)
    expect((await ask(2)).status).toBe(404)
  })

  test('PHP: its call for several queues sends a query of its own', async () => {
    const { api, publish } = await gateway()
    await publish('second', 'x')
    expect((await api('GET', 'first,second?Array')).json).toMatchObject({ queue: 'second' })
    expect((await api('GET', 'first,second?Array')).status).toBe(404)
  })

  test('Java: each 400 and 413 says what the error is', async () => {
    const { api } = await gateway()
    const answers = [
      await api('PUT', 'java?ttl=-1', { body: 'x' }),
      await api('PUT', 'java', { body: LARGE }),
      await api('PUT', '_java', { body: 'x' }),
      await api('PUT', 'java/bulk', { body: '{}' }),
      await api('GET', 'java?count=0'),
      await api('PUT', 'java/deadletter?limit=0'),
      await api('DELETE', 'java/deadletter?limit=99999999999999999999'),
      await api('PUT', 'java/deadletter?ttl=99999999999999999999'),
    ]
    for (const { status, json } of answers)
      expect([[400, 413].includes(status), typeof json.error]).toEqual([true, 'string'])
  })
})

describe('the administration', () => {
  test('takes tokens of 20 characters and namespaces of 255', async () => {
    const { admin } = await gateway()
    const namespace = 'n'.repeat(255)
    const create = (token: string) => admin('POST', `/token/${namespace}?description=x&token=${token}`)
    expect((await create('x'.repeat(19))).json).toEqual({ error: 'the user token was too short' })
    expect((await create('x'.repeat(20))).status).toBe(201)
    expect((await admin('GET', '/info?pool=nowhere')).json).toEqual({ error: 'the pool was not exists' })
  })

  test('has the metrics that lmstfy has of jobs and requests', async () => {
    const opened = await gateway()
    const { admin, api, publish, consume, token } = opened
    const id = await publish('counted', 'x')
    await died(opened, 'counted', id)
    await api('PUT', 'counted/deadletter')
    await consume('counted,other')
    await publish('counted', 'later', '?delay=60')
    await admin('POST', `/token/ns/${token}/limit`, { body: '{"read": 9, "write": 1, "interval": 600}' })
    for (const status of [201, 429]) expect((await api('PUT', 'counted', { body: 'x' })).status).toBe(status)
    await api('GET', 'counted?ttr=x')
    const { text } = await admin('GET', '/metrics')
    const labels = 'pool="default",namespace="ns",queue="counted"'
    const request = 'pool="default",namespace="ns",api="/api/:namespace/:queue"'
    for (const line of [
      'infra_lmstfy_redis_publish_jobs{pool="default"} 3',
      'infra_lmstfy_redis_pool_add_jobs{pool="default"} 3',
      'infra_lmstfy_redis_consume_jobs{pool="default"} 1',
      'infra_lmstfy_redis_consume_multi_jobs{pool="default"} 1',
      'infra_lmstfy_redis_pool_get_jobs{pool="default"} 2',
      'infra_lmstfy_redis_queue_pop_jobs{pool="default"} 2',
      'infra_lmstfy_redis_deadletter_respawn_jobs{pool="default"} 1',
      'infra_lmstfy_redis_queue_direct_push_jobs{pool="default"} 2',
      'infra_lmstfy_redis_timer_add_jobs{pool="default"} 1',
      `infra_lmstfy_redis_publish_queue_jobs{${labels}} 3`,
      `infra_lmstfy_redis_consume_queue_jobs{${labels}} 2`,
      `infra_lmstfy_redis_timer_sizes{${labels}} 1`,
      `infra_lmstfy_redis_queue_sizes{${labels}} 1`,
      `infra_lmstfy_http_rate_limit{pool="default",namespace="ns",token="${token.slice(0, 4)}…",action="produce"} 1`,
      `infra_lmstfy_http_http_codes{${request},method="PUT",code="201"} 3`,
      `infra_lmstfy_http_http_codes{${request},method="PUT",code="429"} 1`,
      `infra_lmstfy_http_http_codes{${request},method="GET",code="400"} 1`,
      // Those of failures are not in it.
      `infra_lmstfy_http_latency_milliseconds_count{${request},method="PUT"} 3`,
      `infra_lmstfy_http_latency_milliseconds_count{${request},method="GET"} 2`,
    ])
      expect(text).toContain(line)
    const types = new Map(
      [...text.matchAll(/^# TYPE infra_lmstfy_(\w+) (\w+)$/gm)].map(([, name, type]) => [name, type]),
    )
    expect([...types]).toEqual(
      expect.arrayContaining([
        ['redis_pool_delete_jobs', 'counter'],
        ['redis_deadletter_sizes', 'gauge'],
        ['redis_job_elapsed_ms', 'histogram'],
        ['redis_job_ack_elapsed_ms', 'histogram'],
        ['http_latency_milliseconds', 'histogram'],
      ]),
    )
  })
})

import { request } from 'node:http'
import { connect } from 'node:net'
import { expect, test, vi } from 'vitest'
import { CLAIM } from '../../../src/http/api/routes/claim.ts'
import { type ClaimOptions, type ClaimReference, defineQueue } from '../../../src/index.ts'
import { JsonText } from '../../../src/json-text.ts'
import { eventually } from '../../support/worker-environment.ts'
import { below, type Gateway, useGateways } from './gateway.ts'

const { env, open, name } = useGateways()

/** A queue with one shard, so that its jobs come in one order. */
async function queueWith(...ids: string[]): Promise<string> {
  const queue = defineQueue(name(), { shards: 1 })
  for (const id of ids) await env.lockstep.enqueue(queue, { id, payload: `of ${id}` })
  if (ids.length === 0) await env.sql('SELECT lockstep.create_queue($1, 1)', [queue.name])
  return queue.name
}

async function claimed({ post }: Gateway, body: object): Promise<string[]> {
  const { status, json } = await post('/claim', body)
  expect(status).toBe(200)
  return json.jobs.map(({ id }: { id: string }) => id)
}

interface Claim {
  readonly queue: string
  readonly id: string
  readonly fence: string
}

const told = ({ queue, id, fence }: Claim): Claim => ({ queue, id, fence })

test('a claim brings a job with all that has piled up for its id, and what is known of it', async () => {
  const { post } = await open()
  const queue = name()
  const headers = { trace: 'x' }
  await post(below(queue, '/jobs'), { id: 'a', payload: { n: 2 }, score: 2 })
  await post(below(queue, '/jobs'), { id: 'a', payload: { n: 1 }, score: 1, headers, tenant: 'acme' })
  const { json } = await post('/claim', { queues: queue })
  expect(json.jobs).toEqual([
    {
      queue,
      id: 'a',
      fence: expect.stringMatching(/^\d+$/),
      tenant: null,
      perform_in: expect.stringMatching(/^\d{4}-.*Z$/),
      retry_count: -1,
      crashes: 0,
      error: null,
      payloads: [
        { payload: { n: 1 }, score: 1, headers },
        { payload: { n: 2 }, score: 2, headers: null },
      ],
    },
  ])
  expect(await claimed({ post } as Gateway, { queues: queue })).toEqual([])
})

test.each(['12345678901234567890', '{"v": 9007199254740993, "w": [1.10, 1]}', '"1.0"'])(
  'payload %s comes as it is stored, alone and among others',
  async (payload) => {
    const { post } = await open()
    const queue = name()
    await post(below(queue, '/jobs'), `{"id":"a","payload":${payload}}`)
    await post(below(queue, '/jobs'), `{"jobs":[{"id":"b","payload":${payload}},{"id":"b","payload":1}]}`)
    const { text } = await post('/claim', { queues: queue, count: 2 })
    expect(text.split(`"payload":${payload}`)).toHaveLength(3)
  },
)

test('a payload too large for the answer of a claim is loaded with its digits', async () => {
  const { post } = await open({ access: 'open', maxBody: 10 * 1024 * 1024 })
  const queue = name()
  const large = `[12345678901234567890, "${'x'.repeat(5 * 1024 * 1024)}"]`
  await post(below(queue, '/jobs'), `{"id":"a","payload":${large}}`)
  await post(below(queue, '/jobs'), `{"id":"b","payload":${large}}`)
  const { text } = await post('/claim', { queues: queue, count: 2 })
  expect(text.split(`"payload":${large.slice(0, 100)}`)).toHaveLength(3)
})

test('jobs too large for one answer wait as before, but for the first ones', { tags: 'slow' }, async () => {
  const { post } = await open()
  const queue = name()
  await env.sql('SELECT lockstep.create_queue($1, 1)', [queue])
  await env.sql(
    `SELECT lockstep.enqueue($1, n::text, to_jsonb(repeat('x', 8000000)), perform_in => now() - interval '1 h' + n * interval '1 s')
     FROM generate_series(1, 5) n`,
    [queue],
  )
  const claim = async () => (await post('/claim', { queues: queue, count: 10, wait: 20 })).json.jobs
  expect((await claim()).map(({ id }: { id: string }) => id)).toEqual(['1', '2', '3', '4'])
  expect(await claim()).toMatchObject([{ id: '5', retry_count: -1 }])
})

test('several queues: those that come first are looked at first, or the order is drawn by weight', async () => {
  const gateway = await open()
  const [first, second] = [await queueWith('1', '2'), await queueWith('3', '4', '5')]
  expect(await claimed(gateway, { queues: [second, first], count: 2 })).toEqual(['3', '4'])
  expect(await claimed(gateway, { queues: [first, second], count: 2 })).toEqual(['1', '2'])
  expect(await claimed(gateway, { queues: { [first]: 1000, [second]: 0.001 } })).toEqual(['5'])
})

test('a claim waits for a job, which any server may get, and is answered without one in the end', async () => {
  const [gateway, other] = [await open(), await open()]
  const queue = await queueWith()
  const waiting = claimed(gateway, { queues: queue, wait: 30 })
  await other.post(below(queue, '/jobs'), { id: 'a' })
  expect(await waiting).toEqual(['a'])
  expect(await claimed(gateway, { queues: queue, wait: 0.05 })).toEqual([])
})

test('P6: each way to end a claim says whether it was held, whoever claimed', async () => {
  const [gateway, other] = [await open(), await open()]
  const queue = await queueWith('a', 'b', 'c', 'd')
  const { jobs } = (await gateway.post('/claim', { queues: queue, count: 4 })).json
  const [a, b, c, d] = jobs.map(told)
  const held = async (path: string, body: object) => (await other.post(path, body)).json
  expect(await held('/extend', { ...a, lease: 60 })).toEqual({ held: true })
  expect(await held('/complete', a)).toEqual({ held: true })
  expect(await held('/complete', a)).toEqual({ held: false })
  expect(await held('/extend', a)).toEqual({ held: false })
  expect(await held('/release', b)).toEqual({ held: true })
  expect(await held('/fail', { ...c, error: 'no stock', retry_in: 3600 })).toEqual({ held: true })
  expect(await held('/fail', { ...c, error: 'no stock' })).toEqual({ held: false })
  expect(await held('/complete', { ...d, fence: String(Number(d.fence) + 1) })).toEqual({ held: false })
  const found = (await gateway.get(below(queue, '/jobs?by=id'))).json.jobs
  expect(found).toMatchObject([
    { id: 'b', retry_count: -1, state: 'waiting', error: null },
    { id: 'c', retry_count: 0, state: 'waiting', error: 'no stock' },
    { id: 'd', state: 'working', fence: d.fence },
  ])
  expect(Date.parse(found[1].perform_in) - Date.now()).toBeGreaterThan(3_500_000)
})

test('a list of claims has a result for each, in order', async () => {
  const { post } = await open()
  const queue = await queueWith('a', 'b', 'c')
  const { jobs } = (await post('/claim', { queues: queue, count: 3 })).json
  const [a, b, c] = jobs.map(told)
  const completed = await post('/complete', { claims: [b, { ...a, fence: '1' }, a, { ...c, queue: 'gone' }] })
  expect(completed.json.results).toMatchObject([
    { held: true },
    { held: false },
    { held: true },
    { held: null, problem: { status: 404, code: 'LOCKSTEP_UNKNOWN_QUEUE' } },
  ])
  const failed = await post('/fail', { claims: [{ ...c, error: 'x', retry_in: 0 }] })
  expect(failed.json.results).toEqual([{ held: true }])
  const gone = await post('/release', { claims: [{ ...c, queue: 'gone' }] })
  expect([gone.status, gone.json.code]).toEqual([404, 'LOCKSTEP_UNKNOWN_QUEUE'])
})

test('422: an id that no job can have, which fails no other claim', async () => {
  const { post } = await open()
  const queue = await queueWith('a')
  const [claim] = (await post('/claim', { queues: queue })).json.jobs.map(told)
  const wrong = { queue, id: '\u0000', fence: '1' }
  const answers = await Promise.all([
    post('/complete', wrong),
    post('/complete', claim),
    post('/complete', wrong),
  ])
  expect(answers.map(({ status }) => status)).toEqual([422, 200, 422])
  expect(answers[0]!.json).toMatchObject({ code: 'LOCKSTEP_BAD_OPTION', field: 'id' })
})

test('a lease that ends is a failure, and the job waits again', async () => {
  const gateway = await open()
  const queue = await queueWith('a')
  await gateway.post('/claim', { queues: queue, lease: 0.05 })
  const { jobs } = (await gateway.post('/claim', { queues: queue, wait: 20 })).json
  expect(jobs).toMatchObject([{ id: 'a', retry_count: 0 }])
})

test('409: a transaction that has pushed the id stays open', { tags: 'slow', timeout: 30_000 }, async () => {
  const { post } = await open()
  const queue = await queueWith('a')
  const [claim] = (await post('/claim', { queues: queue })).json.jobs.map(told)
  const client = await env.pool.connect()
  try {
    await client.query('BEGIN')
    await client.query("SELECT lockstep.enqueue($1, 'a', '1')", [queue])
    const answer = await post('/complete', claim)
    expect([answer.status, answer.json.code, answer.headers.get('retry-after')]).toEqual([
      409,
      'LOCKSTEP_LOCKED',
      '1',
    ])
    await client.query('ROLLBACK')
  } finally {
    client.release()
  }
  expect((await post('/complete', claim)).json).toEqual({ held: true })
})

test('a client that goes away while it waits gets nothing, and uses nothing up', async () => {
  const gateway = await open()
  const queue = await queueWith()
  const consumerHasOne = () => vi.waitFor(async () => expect(await waiting()).toBe(true), { timeout: 10_000 })
  // The flag that a waiting claim raises.
  const waiting = async () =>
    (
      await env.sql('SELECT lockstep.has_listener(q.queue_id) AS is FROM lockstep.queues q WHERE name = $1', [
        queue,
      ])
    )[0]!.is as boolean
  const outgoing = request(gateway.site.origin, {
    path: '/v1/claim',
    method: 'POST',
    headers: { 'content-type': 'application/json' },
  })
  outgoing.on('error', () => {})
  outgoing.end(JSON.stringify({ queues: queue, wait: 60, lease: 3600 }))
  await consumerHasOne()
  outgoing.destroy()
  await vi.waitFor(async () => expect(await waiting()).toBe(false), { timeout: 20_000 })
  await gateway.post(below(queue, '/jobs'), { id: 'a' })
  await eventually(async () => expect(await claimed(gateway, { queues: queue, wait: 5 })).toEqual(['a']))
  const [job] = (await gateway.get(below(queue, '/jobs'))).json.jobs
  expect(job).toMatchObject({ retry_count: -1, crashes: 0 })
})

test('so does one that has sent several claims on one connection', async () => {
  const gateway = await open()
  const queues = [await queueWith(), await queueWith()]
  const claims = queues.map((queue) => {
    const body = JSON.stringify({ queues: queue, wait: 60, lease: 3600 })
    const head = `POST /v1/claim HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`
    return `${head}\r\n\r\n${body}`
  })
  const socket = connect(Number(new URL(gateway.site.origin).port), '127.0.0.1')
  socket.write(claims.join(''))
  for (const queue of queues) await env.idle({ name: queue } as never)
  socket.destroy()
  for (const queue of queues) {
    await gateway.post(below(queue, '/jobs'), { id: 'a' })
    expect(await claimed(gateway, { queues: queue, wait: 5 })).toEqual(['a'])
  }
})

test('jobs that are claimed just as their client goes away are given back at once', async () => {
  const gateway = await open()
  const queue = await queueWith('a', 'b')
  const consumer = env.lockstep.createConsumer()
  env.later(() => consumer.stop())
  const leaving = new AbortController()
  const claiming = {
    async claim({ signal: _, ...options }: ClaimOptions) {
      const jobs = await consumer.claim(options)
      leaving.abort()
      return jobs.map((job) => ({ ...job, payloads: job.payloads.map(() => new JsonText('1')) }))
    },
    release: (claim: ClaimReference) => consumer.release(claim),
  }
  const request = new Request('http://here/v1/claim', { signal: leaving.signal })
  const value = { queues: queue, count: 2, lease: 3_600 }
  const call = { request, body: { value }, requireQueues: async () => {} }
  await CLAIM.answer(call as never, { consumer: claiming } as never)
  const { jobs } = (await gateway.post('/claim', { queues: queue, count: 2, wait: 10 })).json
  expect(jobs).toMatchObject([
    { id: 'a', retry_count: -1, crashes: 0 },
    { id: 'b', retry_count: -1, crashes: 0 },
  ])
})

test.each([
  ['/claim', '{}', 'queues', 'queues is missing'],
  ['/claim', '{"queues":7}', 'queues', 'queues must be the name of a queue, a list of names'],
  ['/claim', '{"queues":[]}', 'queues', 'queues must'],
  ['/claim', '{"queues":{"a":0}}', 'queues.a', 'queues.a must be a number from 0.001 to 1000, not 0'],
  ['/claim', '{"queues":"a","count":0}', 'count', 'count must be at least 1, not 0'],
  ['/claim', '{"queues":"a","count":1001}', 'count', 'count must be at most 1000'],
  ['/claim', '{"queues":"a","count":"1"}', 'count', 'count must be a number, not "1"'],
  ['/claim', '{"queues":"a","lease":-1}', 'lease', 'lease must be at least 0'],
  ['/claim', '{"queues":"a","lease":1e9}', 'lease', 'lease must be at most 604800'],
  ['/claim', '{"queues":"a","wait":301}', 'wait', 'wait must be at most 300'],
  ['/claim', '{"queue":"a"}', undefined, ''],
  ['/complete', '{"queue":"a","id":"b"}', 'fence', 'fence must be text, as the claim told it'],
  ['/complete', '{"queue":"a","id":"b","fence":7}', 'fence', 'fence must be text, as the claim told it'],
  ['/complete', '{"queue":"a","id":"b","fence":"1e3"}', 'fence', 'fence must be text of digits'],
  ['/complete', '{"queue":"a","id":"b","fence":"99999999999999999999"}', 'fence', 'fence is no fence'],
  ['/complete', '{"queue":"a","id":"b","fence":"9999999999999999"}', 'fence', 'fence is no fence'],
  ['/complete', '{"claims":[]}', 'claims', 'claims must have at least 1 elements'],
  [
    '/complete',
    '{"claims":[{"queue":"a","id":"b","fence":"1"},{"queue":"a"}]}',
    'claims[1].id',
    'claims[1].id is missing',
  ],
  ['/fail', '{"queue":"a","id":"b","fence":"1"}', 'error', 'error is missing'],
  [
    '/fail',
    '{"queue":"a","id":"b","fence":"1","error":"x","retry_in":-1}',
    'retry_in',
    'retry_in must be at least 0',
  ],
  ['/extend', '{"queue":"a","id":"b","fence":"1","error":"x"}', 'error', 'error is unknown'],
])('422: %s %s', async (path, body, field, detail) => {
  const { post } = await open()
  const answer = await post(path, body)
  expect(answer.json).toMatchObject({ status: 422, detail: expect.stringContaining(detail) })
  if (field) expect(answer.json.field).toBe(field)
})

import { expect, test } from 'vitest'
import { defineQueue } from '../../../src/index.ts'
import { below, type Gateway, useGateways } from './gateway.ts'

const { env, open, name } = useGateways()

/** A consumer that completes what it claims of a queue, with this result. */
async function answerOnce({ post }: Gateway, queue: string, more: object): Promise<void> {
  const { json } = await post('/claim', { queues: queue, wait: 10 })
  const [{ id, fence }] = json.jobs
  expect((await post('/complete', { queue, id, fence, ...more })).json).toEqual({ held: true })
}

test('a push that waits is answered with what the handler returned', async () => {
  const gateway = await open()
  const queue = defineQueue(name(), { keepResult: 60, perform: (batch) => [...batch.values()].flat() })
  await env.work({ queues: [queue] })
  const { status, json } = await gateway.post(below(queue.name, '/jobs?wait=10'), {
    id: 'a',
    payload: { n: 1 },
  })
  expect(status).toBe(200)
  expect(json).toEqual({
    stored: 1,
    id: 'a',
    round: expect.any(String),
    state: 'completed',
    result: [{ n: 1 }],
    error: null,
    retry_count: null,
    ended_at: expect.stringMatching(/Z$/),
  })
})

test('with its error, if it died of that', async () => {
  const { post } = await open()
  const queue = defineQueue(name(), {
    keepResult: 60,
    maxRetryCount: 0,
    perform() {
      throw new Error('out of stock')
    },
  })
  await env.work({ queues: [queue] })
  const { status, json } = await post(below(queue.name, '/jobs?wait=10'), { id: 'a' })
  expect(status).toBe(200)
  expect(json).toMatchObject({ state: 'dead', result: null, error: expect.stringContaining('out of stock') })
})

test('what is not over in time is told with 202, and found later by its round', async () => {
  const gateway = await open()
  const { post, get } = gateway
  const queue = name()
  const pushed = await post(below(queue, '/jobs?wait=0'), { id: 'a/b c' })
  expect(pushed.status).toBe(202)
  expect(pushed.json).toMatchObject({ stored: 1, state: 'waiting', retry_count: -1 })
  const at = below(queue, `/results/a%2Fb%20c?round=${pushed.json.round}`)
  expect(await get(at)).toMatchObject({ status: 202, json: { state: 'waiting' } })
  const waiting = get(`${at}&wait=10`)
  await answerOnce(gateway, queue, { result: { ok: true } })
  expect(await waiting).toMatchObject({ status: 200, json: { state: 'completed', result: { ok: true } } })
})

test('a consumer’s result keeps all digits, alone and in a list', async () => {
  const gateway = await open()
  const queue = name()
  const results = ['{"v":12345678901234567890.10}', '1e-7']
  for (const [index, result] of results.entries()) {
    const { json } = await gateway.post(below(queue, '/jobs?wait=0'), { id: 'a', payload: index })
    const claimed = await gateway.post('/claim', { queues: queue, wait: 10 })
    const { fence } = claimed.json.jobs[0]
    const claim = `{"queue": ${JSON.stringify(queue)}, "id": "a", "fence": "${fence}", "result": ${result}}`
    const body = index === 0 ? claim : `{"claims": [${claim}]}`
    expect((await gateway.post('/complete', body)).status).toBe(200)
    const { text } = await gateway.get(below(queue, `/results/a?round=${json.round}`))
    expect(text).toContain(index === 0 ? '"result":{"v": 12345678901234567890.10}' : '"result":0.0000001')
  }
})

test('results are kept as long as the claim says, without one none is', async () => {
  const gateway = await open()
  const queue = name()
  const { json } = await gateway.post(below(queue, '/jobs?wait=0'), { id: 'a' })
  await answerOnce(gateway, queue, { result: null, keep_result: 7200 })
  const at = below(queue, `/results/a?round=${json.round}`)
  expect((await gateway.get(at)).json).toMatchObject({ state: 'completed', result: null })
  const [row] = await env.sql(
    `SELECT extract(epoch FROM r.keep_until - r.ended_at)::int AS kept FROM lockstep.results r
     JOIN lockstep.queues q USING (queue_id) WHERE q.name = $1`,
    [queue],
  )
  expect(row).toEqual({ kept: 7200 })
  const other = await gateway.post(below(queue, '/jobs?wait=0'), { id: 'b' })
  await answerOnce(gateway, queue, {})
  expect(await gateway.get(below(queue, `/results/b?round=${other.json.round}`))).toMatchObject({
    status: 200,
    json: { state: 'gone' },
  })
})

test.each([
  ['several jobs', '/jobs?wait=1', { jobs: [{ id: 'a' }] }, {}, 422],
  ['a key', '/jobs?wait=1', { id: 'a' }, { 'idempotency-key': 'x' }, 400],
  ['too long a wait', '/jobs?wait=301', { id: 'a' }, {}, 400],
])('%s with wait: refused, and nothing is stored', async (_, path, body, headers, status) => {
  const { post } = await open()
  const queue = defineQueue(name())
  expect((await post(below(queue.name, path), body, headers)).status).toBe(status)
  expect(await env.jobs(queue)).toBe(0)
})

test('a bad round, an unknown queue and a bad result are refused', async () => {
  const { get, post } = await open()
  const queue = name()
  await post(below(queue, '/jobs'), { id: 'a' })
  expect(await get(below(queue, '/results/a?round=x'))).toMatchObject({ status: 400 })
  expect(await get(below(queue, '/results/a'))).toMatchObject({ status: 400 })
  const round = '1.1.0a1b2c3d4e5f6071'
  expect(await get(below(queue, `/results/%00?round=${round}`))).toMatchObject({ status: 400 })
  expect(await get(below('no such queue', `/results/a?round=${round}`))).toMatchObject({ status: 404 })
  const { json } = await post('/claim', { queues: queue })
  const [{ id, fence }] = json.jobs
  // Postgres would make 2.6 MB of the second.
  for (const result of ['"a\\u0000b"', `[${Array(20).fill('1e131071')}]`]) {
    const body = `{"queue":${JSON.stringify(queue)},"id":"a","fence":"${fence}","result":${result}}`
    expect(await post('/complete', body)).toMatchObject({
      status: 422,
      json: { code: 'LOCKSTEP_BAD_RESULT' },
    })
  }
  expect(await post('/complete', { queue, id, fence })).toMatchObject({ json: { held: true } })
})

test('a server that stops answers those who wait for results', async () => {
  const gateway = await open()
  const queue = name()
  const pushed = gateway.post(below(queue, '/jobs?wait=60'), { id: 'a' })
  await expect.poll(() => env.jobs(defineQueue(queue)), { timeout: 10_000 }).toBe(1)
  await gateway.api.stop()
  expect(await pushed).toMatchObject({ status: 202, json: { state: 'waiting' } })
})

import { expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { below, useGateways } from './api/gateway.ts'
import { openGateway } from './lmstfy/wire.ts'

const { env, open, name } = useGateways()

/** A member that most copies of an object lose. */
const HEADERS = '{"__proto__": "x", "a": 1}'

test('a header called __proto__ is kept over HTTP, alone, in a list, and in what is found', async () => {
  const { get, post } = await open()
  const queue = name()
  await post(below(queue, '/jobs'), `{"id": "a", "headers": ${HEADERS}}`)
  await post(below(queue, '/jobs'), `{"jobs": [{"id": "b", "headers": ${HEADERS}}]}`)
  const found = await get(below(queue, '/jobs?by=id'))
  const claimed = await post('/claim', { queues: queue, count: 2 })
  expect(found.text.match(/"__proto__":"x"/g)).toHaveLength(2)
  expect(claimed.text.match(/"__proto__":"x"/g)).toHaveLength(2)
})

test('it is kept by the library, and by SQL', async () => {
  const queue = defineQueue(name(), { shards: 1 })
  await env.lockstep.enqueue(queue, { id: 'a', headers: JSON.parse(HEADERS) })
  await env.sql('SELECT lockstep.enqueue($1, $2, headers => $3)', [queue.name, 'b', HEADERS])
  const consumer = env.lockstep.createConsumer()
  env.later(() => consumer.stop())
  const jobs = await consumer.claim({ queues: queue, count: 2 })
  expect(jobs.map(({ headers }) => JSON.stringify(headers[0]))).toEqual(
    Array(2).fill('{"a":1,"__proto__":"x"}'),
  )
})

test('it is kept as an attribute of lmstfy’s API', async () => {
  const { api, stop } = await openGateway(env)
  env.later(stop)
  const headers = { 'enable-job-version': 'YES', 'job-attr-__proto__': 'x' }
  await api('PUT', 'proto', { headers, body: 'x' })
  expect((await api('GET', 'proto')).text).toContain('"attributes":{"__proto__":"x"}')
})

test('headers that are no object are refused', async () => {
  const { post } = await open()
  for (const headers of ['x', 1, [], true]) {
    const { status, json } = await post(below(name(), '/jobs'), { id: 'a', headers })
    const detail = expect.stringMatching(/^headers must be an object, not /)
    expect([status, json.field, json.detail]).toEqual([422, 'headers', detail])
  }
})

test('a queue called __proto__ may have a weight, and an object without a queue is refused for that', async () => {
  const { post } = await open()
  await post(below('__proto__', '/jobs'), { id: 'a' })
  const claimed = await post('/claim', '{"queues": {"__proto__": 1}}')
  expect(claimed.json.jobs).toMatchObject([{ queue: '__proto__', id: 'a' }])
  const none = await post('/claim', { queues: {} })
  const problem = [422, 'queues', 'queues must name at least one queue']
  expect([none.status, none.json.field, none.json.detail]).toEqual(problem)
  const consumer = env.lockstep.createConsumer()
  env.later(() => consumer.stop())
  for (const queues of [{}, []])
    await expect(consumer.claim({ queues })).rejects.toThrow(/at least one queue/)
  for (const weight of [0, 1_001, 'x', null]) {
    const { status, json } = await post('/claim', { queues: { fine: 1, 'not fine': weight } })
    expect([status, json.field]).toEqual([422, 'queues["not fine"]'])
  }
})

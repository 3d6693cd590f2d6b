import { expect, test } from 'vitest'
import { Lockstep } from '../../../src/index.ts'
import { createMigrated } from '../../support/database.ts'
import { eventually } from '../../support/worker-environment.ts'
import { type Answered, decoded, type Gateway, send, useGateway } from './wire.ts'

// B7: a producer consumes a queue that is named by the id of its job; the worker publishes its reply there.

const { env, gateway } = useGateway()

/** Two gateways, and requests to either with one token. */
async function twoGateways() {
  const gateways = [await gateway(), await gateway()] as const
  const headers = { 'x-token': gateways[0].token }
  const at =
    (place: number): Call =>
    (method, path, body) =>
      send(gateways[place % 2]!.port, method, `/api/ns/${path}`, { headers, body })
  return { at }
}

type Call = (method: string, path: string, body?: string) => Promise<Answered>

/** Answers as many tasks, each with its own text. */
async function work(call: Call, queue: string, tasks: number): Promise<void> {
  for (let n = 0; n < tasks; n += 1) {
    const { json } = await call('GET', `${queue}?ttr=60&timeout=30`)
    expect((await call('PUT', json.job_id, `re: ${decoded(json.data)}`)).status).toBe(201)
    expect((await call('DELETE', `${queue}/job/${json.job_id}`)).status).toBe(204)
  }
}

test('B7: many clients of two gateways each get the reply to their own task, whichever gateway it takes', async () => {
  const { at } = await twoGateways()
  const ask = async (n: number) => {
    const { json } = await at(n)('PUT', 'questions', `question ${n}`)
    // Some listen at the other gateway.
    const call = at(n % 3)
    const { json: reply } = await call('GET', `${json.job_id}?timeout=30`)
    expect(reply.queue).toBe(json.job_id)
    await call('DELETE', `${json.job_id}/job/${reply.job_id}`)
    return decoded(reply.data)
  }
  const workers = [0, 1, 2, 3].map((n) => work(at(n), 'questions', 6))
  const replies = await Promise.all(Array.from({ length: 24 }, (_, n) => ask(n)))
  expect(replies).toEqual(Array.from({ length: 24 }, (_, n) => `re: question ${n}`))
  await Promise.all(workers)
  expect(await env.sql('SELECT FROM lockstep.waiting UNION ALL SELECT FROM lockstep.working')).toEqual([])
})

test.each([
  ['', {}],
  [' of a task with attributes', { 'Enable-Job-Version': 'YES', 'Job-Attr-A': '1' }],
])('B7: each id%s is the name of a queue for every request', async (_, headers) => {
  const { api } = await gateway()
  const id = (await api('PUT', 'named', { body: 'x', headers })).json.job_id
  const reply = await api('PUT', `${id}?tries=1`, { body: 'reply' })
  expect(reply.status).toBe(201)
  expect((await api('GET', `${id}/peek`)).json.job_id).toBe(reply.json.job_id)
  expect((await api('GET', `${id}/job/${reply.json.job_id}`)).json.queue).toBe(id)
  expect((await api('GET', `${id}/size`)).json.size).toBe(1)
  expect((await api('GET', `${id}?ttr=0`)).json).toMatchObject({ queue: id, data: 'cmVwbHk=' })
  await eventually(async () => expect((await api('GET', `${id}/deadletter`)).json.deadletter_size).toBe(1))
  expect((await api('PUT', `${id}/deadletter`)).json.count).toBe(1)
  expect((await api('GET', `other,${id}`)).json.job_id).toBe(reply.json.job_id)
  expect((await api('DELETE', id)).status).toBe(204)
})

test('B7: a reply waits for its producer, and comes again to one that failed with it', async () => {
  const { publish, consume, api } = await gateway()
  const task = await publish('patient', 'question')
  await publish(task, 'reply', '?tries=2')
  expect(decoded((await consume(task, '?ttr=1')).data)).toBe('reply')
  const again = await consume(task, '?ttr=60&timeout=5')
  expect([decoded(again.data), again.remain_tries]).toEqual(['reply', 0])
  await api('DELETE', `${task}/job/${again.job_id}`)
  expect(await consume(task)).toBeNull()
})

test('a, B7: a producer that goes away while it waits for its reply uses nothing up', async () => {
  const { api, publish, consume } = await gateway()
  const task = await publish('left', 'question')
  const leaving = new AbortController()
  const gone = api('GET', `${task}?timeout=60`, { signal: leaving.signal }).catch(() => 'gone')
  await env.idle({ name: `ns/${task}` } as never)
  leaving.abort()
  expect(await gone).toBe('gone')
  await publish(task, 'reply')
  expect(decoded((await consume(task, '?timeout=5')).data)).toBe('reply')
})

test('B7: a reply nobody has sent is a 404 once the time of the producer is up', async () => {
  const { publish, api } = await gateway()
  const task = await publish('unanswered', 'question')
  const { status, json } = await api('GET', `${task}?timeout=1`)
  expect([status, json]).toEqual([404, { msg: 'no job available' }])
})

test('B7: tasks and replies of a pool stay in its database', async () => {
  const database = await createMigrated()
  const eu = new Lockstep({ connectionString: database.connectionString, logger: env.logger })
  env.later(async () => {
    await eu.close()
    await database.drop()
  })
  const opened: Gateway = await gateway({ pools: { default: env.lockstep, eu } })
  const { json } = await opened.admin('POST', '/token/ns?description=x&pool=eu')
  const call: Call = (method, path, body) =>
    send(opened.port, method, `/api/ns/${path}`, { headers: { 'x-token': json.token }, body })
  const task = (await call('PUT', 'abroad', 'question')).json.job_id
  const reply = call('GET', `${task}?timeout=30`)
  await work(call, 'abroad', 1)
  expect(decoded((await reply).json.data)).toBe('re: question')
  expect(await opened.consume(task)).toBeNull()
})

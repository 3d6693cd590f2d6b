import http from 'node:http'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { eventually } from '../../support/worker-environment.ts'
import { decoded, send, useGateway } from './wire.ts'

const { env, gateway } = useGateway()

interface Job {
  readonly job_id: string
  readonly queue: string
  readonly data: string
}

const bodies = (jobs: readonly Job[]) => jobs.map(({ data }) => decoded(data))

test('without a job, a consume says 404 at once', async () => {
  const { api } = await gateway()
  const { status, json } = await api('GET', 'nothing')
  expect([status, json]).toEqual([404, { msg: 'no job available' }])
})

test.each([
  ['?ttr=-1', 'invalid ttr'],
  ['?ttr=', 'invalid ttr'],
  ['?timeout=1.5', 'invalid timeout'],
  ['?timeout=4294967296', 'invalid timeout'],
  ['?count=0', 'invalid count'],
  ['?count=101', 'invalid count'],
  ['?count=x', 'invalid count'],
])('a consume with %s says %s', async (query, error) => {
  const { api } = await gateway()
  const { status, json } = await api('GET', `q${query}`)
  expect([status, json]).toEqual([400, { error }])
})

test('a list of nothing but commas is no list', async () => {
  const { api } = await gateway()
  const { status, json } = await api('GET', ',,')
  expect([status, json]).toEqual([400, { error: 'invalid queue name(s)' }])
})

test('B1: a delayed job comes when its time has come, and not before', async () => {
  const { publish, consume } = await gateway()
  await publish('delayed', 'later', '?delay=1')
  expect(await consume('delayed')).toBeNull()
  const job = await consume('delayed', '?timeout=5')
  expect(decoded(job.data)).toBe('later')
  expect(job.elapsed_ms).toBeGreaterThanOrEqual(990)
  expect(job.elapsed_ms).toBeLessThan(2_500)
})

test('B2: a job that is not acknowledged within its ttr comes again, as often as it has tries, and then is dead', async () => {
  const { api, publish, consume } = await gateway()
  const id = await publish('tried', 'x', '?tries=2')
  expect(await consume('tried', '?ttr=1')).toMatchObject({ job_id: id, remain_tries: 1 })
  expect(await consume('tried')).toBeNull()
  expect(await consume('tried', '?ttr=1&timeout=5')).toMatchObject({ job_id: id, remain_tries: 0 })
  await eventually(async () => {
    const { json } = await api('GET', 'tried/deadletter')
    expect(json).toEqual({ namespace: 'ns', queue: 'tried', deadletter_size: 1, deadletter_head: id })
  })
  expect(await consume('tried')).toBeNull()
})

test('B2: jobs with other tries, consumed together, each have their own', async () => {
  const { api, publish, consume } = await gateway()
  const once = await publish('mixed', 'once', '?tries=1')
  const twice = await publish('mixed', 'twice', '?tries=2')
  const jobs: (Job & { remain_tries: number })[] = await consume('mixed', '?count=2&ttr=1')
  expect(jobs.map(({ job_id, remain_tries }) => [job_id, remain_tries])).toEqual([
    [once, 0],
    [twice, 1],
  ])
  expect(await consume('mixed', '?timeout=5')).toMatchObject({ job_id: twice, remain_tries: 0 })
  await eventually(async () =>
    expect((await api('GET', 'mixed/deadletter')).json).toMatchObject({
      deadletter_size: 1,
      deadletter_head: once,
    }),
  )
})

test('B2: with a ttr of 0, a job comes again at once', async () => {
  const { publish, consume } = await gateway()
  const id = await publish('zero', 'x', '?tries=2')
  expect(await consume('zero', '?ttr=0')).toMatchObject({ job_id: id })
  expect(await consume('zero', '?timeout=5')).toMatchObject({ job_id: id, remain_tries: 0 })
})

test('B3: jobs of the first queue come first, waiting or not, and those of one queue in their order', async () => {
  const { publish, consume } = await gateway()
  for (const [queue, body] of [
    ['low', 'l1'],
    ['high', 'h1'],
    ['low', 'l2'],
    ['high', 'h2'],
  ] as const)
    await publish(queue, body)
  const order: Job[] = []
  for (let n = 0; n < 4; n += 1) order.push(await consume('high,low', n % 2 === 0 ? '?timeout=1' : ''))
  expect(bodies(order)).toEqual(['h1', 'h2', 'l1', 'l2'])
})

test('B3: a job that comes again joins behind newer ones', async () => {
  const { publish, consume } = await gateway()
  await publish('behind', 'old', '?tries=5')
  await consume('behind', '?ttr=1')
  await publish('behind', 'new')
  await eventually(async () =>
    expect((await env.lockstep.find('ns/behind', { state: 'waiting' })).items).toHaveLength(2),
  )
  expect(bodies(await consume('behind', '?count=5'))).toEqual(['new', 'old'])
})

test('B4: a batch takes what is there now, also of the next queues, and an array comes even for one', async () => {
  const { publish, consume } = await gateway()
  await publish('first', '1')
  await publish('second', '2')
  expect(bodies(await consume('first,empty,second', '?count=3&timeout=30'))).toEqual(['1', '2'])
  await publish('first', '3')
  expect(bodies(await consume('first', '?count=3&timeout=30'))).toEqual(['3'])
})

test('B4: a consume that waits is woken by one job', async () => {
  const { publish, consume } = await gateway()
  const waiting = consume('woken', '?timeout=30&count=5')
  await env.idle({ name: 'ns/woken' } as never)
  await publish('woken', 'x')
  expect(bodies(await waiting)).toEqual(['x'])
})

test('names of several queues drop what is empty, and what no queue can be called', async () => {
  const { publish, consume } = await gateway()
  await publish('listed', 'x')
  expect(await consume(`,_hidden,${'n'.repeat(300)},,listed,`)).toMatchObject({ queue: 'listed' })
})

test('an acknowledged job is gone, and acknowledging anything is 204', async () => {
  const { api, publish, consume } = await gateway()
  const id = await publish('acked', 'x')
  await consume('acked', '?ttr=1')
  expect((await api('DELETE', `acked/job/${id}`)).status).toBe(204)
  expect((await api('GET', `acked/job/${id}`)).json).toEqual({ error: 'job not found' })
  for (const path of [`acked/job/${id}`, 'acked/job/unknown', 'nowhere/job/unknown'])
    expect((await api('DELETE', path)).status).toBe(204)
})

test('an id that no job can have is one that is not there', async () => {
  const { api, publish } = await gateway()
  await publish('impossible', 'x')
  expect((await api('GET', 'impossible/job/%00')).status).toBe(404)
  expect((await api('DELETE', 'impossible/job/%00')).status).toBe(204)
  expect((await api('PUT', 'impossible/job/%00', { body: 'x' })).status).toBe(201)
})

test('a job that waits can be deleted, and one of another queue stays', async () => {
  const { api, publish, consume } = await gateway()
  const id = await publish('waiting', 'x')
  await api('DELETE', `other/job/${id}`)
  expect((await api('GET', `waiting/job/${id}`)).status).toBe(200)
  await api('DELETE', `waiting/job/${id}`)
  expect(await consume('waiting')).toBeNull()
})

// PHP's client sends the body of an earlier publish again with each GET.
test.each([
  ['', 'left', 0],
  [', also if its body fills the socket', 'left-full', 1_000_000],
])('a: a client that goes away while it waits uses nothing up%s', async (_, queue, bytes) => {
  const { api, publish, consume } = await gateway()
  const leaving = new AbortController()
  const headers = { 'content-length': String(bytes) }
  const sending = { signal: leaving.signal, headers, body: Buffer.alloc(bytes) }
  const gone = api('GET', `${queue}?timeout=60`, sending).catch(() => 'gone')
  await env.idle({ name: `ns/${queue}` } as never)
  leaving.abort()
  expect(await gone).toBe('gone')
  const id = await publish(queue, 'x')
  expect(await consume(queue, '?timeout=5')).toMatchObject({ job_id: id, remain_tries: 0 })
})

test('a: so does one that has sent several requests on one connection', async () => {
  const { port, token, publish, consume } = await gateway()
  const queues = ['piped-1', 'piped-2', 'piped-3']
  const requests = queues.map(
    (queue) => `GET /api/ns/${queue}?timeout=60 HTTP/1.1\r\nHost: x\r\nX-Token: ${token}\r\n\r\n`,
  )
  const socket = connect(port, '127.0.0.1')
  socket.write(requests.join(''))
  for (const queue of queues) await env.idle({ name: `ns/${queue}` } as never)
  socket.destroy()
  for (const queue of queues) {
    const id = await publish(queue, 'x')
    expect(await consume(queue, '?timeout=5')).toMatchObject({ job_id: id, remain_tries: 0 })
  }
})

/** Two connections of one address. */
function twoConnections(): [http.Agent, http.Agent] {
  const agents = [1, 2].map(() => new http.Agent({ keepAlive: true, maxSockets: 1 }))
  env.later(() => agents.forEach((agent) => void agent.destroy()))
  return agents as [http.Agent, http.Agent]
}

test('g: a late acknowledgement on the connection of an earlier delivery does not end that of another', async () => {
  const { api, publish, consume } = await gateway()
  const [early, late] = twoConnections()
  const id = await publish('late', 'x', '?tries=3')
  await api('GET', 'late?ttr=1', { agent: early })
  const second = await api('GET', 'late?ttr=60&timeout=5', { agent: late })
  expect(second.json).toMatchObject({ job_id: id, remain_tries: 1 })
  expect((await api('DELETE', `late/job/${id}`, { agent: early })).status).toBe(204)
  expect((await env.lockstep.find('ns/late', { state: 'working' })).items).toHaveLength(1)
  await api('DELETE', `late/job/${id}`, { agent: late })
  expect((await env.lockstep.find('ns/late', {})).items).toEqual([])
  expect(await consume('late')).toBeNull()
})

// It may have been its holder's, whose proxy or client has several connections.
test.each([
  ['comes again', 'again', 3],
  ['is a dead letter', 'dead', 2],
])('g: nor is it lost: the job never %s', async (_, queue, tries) => {
  const { api, publish, consume } = await gateway()
  const [early, late] = twoConnections()
  const id = await publish(queue, 'x', `?tries=${tries}`)
  await api('GET', `${queue}?ttr=1`, { agent: early })
  await api('GET', `${queue}?ttr=1&timeout=5`, { agent: late })
  expect((await api('DELETE', `${queue}/job/${id}`, { agent: early })).status).toBe(204)
  await eventually(async () =>
    expect((await env.lockstep.find(`ns/${queue}`, { state: 'working' })).items).toEqual([]),
  )
  expect(await consume(queue, '?timeout=1')).toBeNull()
  expect((await api('GET', `${queue}/deadletter/size`)).json.size).toBe(0)
})

test('what was handed out by another gateway is acknowledged here, also if it was handed out here before', async () => {
  const [one, other] = [await gateway(), await gateway()]
  const id = await one.publish('elsewhere', 'x', '?tries=3')
  await one.consume('elsewhere', '?ttr=1')
  expect(await other.consume('elsewhere', '?ttr=60&timeout=5')).toMatchObject({ job_id: id })
  await one.api('DELETE', `elsewhere/job/${id}`)
  expect((await env.lockstep.find('ns/elsewhere', {})).items).toEqual([])
})

test('PHP: a GET or DELETE that carries the body of an earlier publish is what it says', async () => {
  const { port, token, publish, api } = await gateway()
  const id = await publish('php', 'x')
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  env.later(() => agent.destroy())
  const body = 'the body of before'
  const form = { 'content-type': 'application/x-www-form-urlencoded', 'content-length': String(body.length) }
  const old = { agent, headers: { 'x-token': token, ...form }, body }
  const consumed = await send(port, 'GET', '/api/ns/php', old)
  expect(consumed.json).toMatchObject({ job_id: id })
  expect((await send(port, 'DELETE', `/api/ns/php/job/${id}`, old)).status).toBe(204)
  expect((await api('GET', `php/job/${id}`)).status).toBe(404)
})

test('PHP: a wait may last longer than a request may take to come, whatever body came with it', async () => {
  const { api } = await gateway({
    server: { headersTimeout: 300, requestTimeout: 300, connectionsCheckingInterval: 50 },
  })
  const body = Buffer.alloc(1_000_000)
  const old = { headers: { 'content-length': String(body.length) }, body }
  expect((await api('GET', 'patient?timeout=1', old)).json).toEqual({ msg: 'no job available' })
})

test('a job is not handed over after its ttl, the first time or again, and is no dead letter', async () => {
  const { api, publish, consume } = await gateway()
  const id = await publish('expiring', 'x', '?ttl=1&tries=5')
  const tried = await publish('expiring', 'y', '?ttl=1&tries=5')
  await consume('expiring,none', '?ttr=60')
  await publish('expiring', 'lives', '?ttl=0')
  await new Promise((resolve) => setTimeout(resolve, 1_100))
  // d: live jobs that follow are found at once, and what has expired is not counted.
  expect((await api('GET', 'expiring/size')).json.size).toBe(1)
  expect((await api('GET', `expiring/job/${tried}`)).json).toEqual({ error: 'job not found' })
  expect(decoded((await consume('expiring')).data)).toBe('lives')
  expect(await consume('expiring')).toBeNull()
  expect((await api('GET', 'expiring/deadletter/size')).json.size).toBe(0)
  expect((await api('DELETE', `expiring/job/${id}`)).status).toBe(204)
})

import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { createApi } from '../../src/http/api/api.ts'
import { nodeListener } from '../../src/http/from-node.ts'
import { createLmstfy } from '../../src/http/lmstfy/lmstfy.ts'
import { observed } from '../../src/http/observed.ts'
import { byPrefix, GatewayServer } from '../../src/http/server.ts'
import { Lockstep } from '../../src/index.ts'
import { useWorkers } from '../support/worker-environment.ts'
import { send } from './lmstfy/wire.ts'
import { dribbled, raw } from './raw.ts'

const env = useWorkers()

/** Bytes come so often that the connection is never idle. */
const EVERY = 100
const PATIENCE = { headersTimeout: 1_500, requestTimeout: 2_500, connectionsCheckingInterval: 100 }

const unread = () => {}

/** Both APIs, as `lockstep serve` has them, but less patient. */
async function served() {
  const error = vi.fn()
  const lockstep = new Lockstep({
    connectionString: env.connectionString,
    logger: { ...env.logger, error },
  })
  const lmstfy = createLmstfy({ pools: { default: lockstep } })
  const v1 = createApi(lockstep, { access: 'open', bodyTimeout: 1_000 })
  const listener = byPrefix({ '': nodeListener(lmstfy.api), '/v1': v1.node })
  const server = new GatewayServer(listener, { host: '127.0.0.1', port: 0 }, unread, PATIENCE)
  const administration = new GatewayServer(nodeListener(lmstfy.admin), { host: '127.0.0.1', port: 0 }, unread)
  const [port, adminPort] = [await server.listen(), await administration.listen()].map((url) =>
    Number(new URL(url).port),
  ) as [number, number]
  env.later(async () => {
    for (const one of [server, administration]) {
      one.drain()
      await one.ended(0)
    }
    await Promise.all([lmstfy.stop(), v1.stop()])
    await lockstep.close()
  })
  const { token } = (await send(adminPort, 'POST', '/token/ns?description=x')).json
  return { port, token: token as string, error }
}

/** The port of a server that has this listener alone, and the server. */
async function serverOf(listener: RequestListener) {
  const server = new GatewayServer(listener, { host: '127.0.0.1', port: 0 }, unread, PATIENCE)
  env.later(async () => {
    server.drain()
    await server.ended(0)
  })
  return { server, port: Number(new URL(await server.listen()).port) }
}

const PLACES = [
  ['/api', 'PUT', '/api/ns/slow'],
  ['/v1', 'POST', '/v1/claim'],
  ['no route', 'GET', '/nowhere'],
] as const

const headOf = (method: string, path: string, token: string, ...lines: string[]) =>
  [
    `${method} ${path} HTTP/1.1`,
    'Host: here',
    `X-Token: ${token}`,
    'Content-Type: application/json',
    ...lines,
  ].join('\r\n')

test.each(PLACES)(
  '%s: clients whose headers dribble in are cut off, and others served',
  async (_, method, path) => {
    const { port, token, error } = await served()
    const slow = Array.from({ length: 50 }, () =>
      dribbled(port, headOf(method, path, token, 'X: y'.repeat(200)), EVERY),
    )
    const headers = { 'x-token': token, 'content-type': 'application/json' }
    expect((await send(port, 'PUT', '/api/ns/others', { headers, body: 'x' })).status).toBe(201)
    expect((await send(port, 'POST', '/v1/claim', { headers, body: '{"queues":"others"}' })).status).toBe(200)
    for (const answer of await Promise.all(slow)) expect(answer).toMatch(/^HTTP\/1\.1 408 /)
    expect(error).not.toHaveBeenCalled()
  },
)

test.each(PLACES.slice(0, 2))(
  '%s: clients whose bodies dribble in are cut off, nothing of them is stored, and others are served',
  async (_, method, path) => {
    const { port, token, error } = await served()
    const head = headOf(method, path, token, 'Content-Length: 1000', '', '')
    const body = '{"queues":"slow"}'.padEnd(1_000)
    const slow = Array.from({ length: 50 }, () => dribbled(port, body, EVERY, head))
    const headers = { 'x-token': token, 'content-type': 'application/json' }
    expect((await send(port, 'PUT', '/api/ns/others', { headers, body: 'x' })).status).toBe(201)
    for (const answer of await Promise.all(slow)) expect(answer).toMatch(/^HTTP\/1\.1 408 /)
    expect(await env.sql("SELECT FROM lockstep.waiting WHERE queue = 'ns/slow'")).toEqual([])
    expect(error).not.toHaveBeenCalled()
  },
)

test.each(PLACES.slice(0, 2))(
  '%s: so is one that stops in the middle of a chunk',
  async (_, method, path) => {
    const { port, token } = await served()
    const head = headOf(method, path, token, 'Transfer-Encoding: chunked', '', '')
    expect(await raw(port, head, '5\r\nab')).toMatch(/^HTTP\/1\.1 408 /)
  },
)

test('what comes after a client was told that it is too slow reaches nobody', async () => {
  const listener = vi.fn()
  const { port } = await serverOf(listener)
  const socket = connect(port, '127.0.0.1')
  const request = headOf('PUT', '/late', '', 'Content-Length: 1', '', 'x')
  socket.write(request.slice(0, 20))
  const [answer] = await once(socket, 'data')
  expect(String(answer)).toMatch(/^HTTP\/1\.1 408 /)
  socket.write(request.slice(20))
  await once(socket, 'close')
  expect(listener).not.toHaveBeenCalled()
})

test.each(PLACES.slice(0, 2))(
  '%s: what comes after an answer that ends the connection is not performed',
  async (_, method, path) => {
    const { port, token } = await served()
    const socket = connect(port, '127.0.0.1')
    socket.write(headOf(method, path, token, 'Content-Length: 9000000', '', ''))
    const [answer] = await once(socket, 'data')
    expect(String(answer)).toMatch(/^HTTP\/1\.1 413 .*connection: close/is)
    const next = headOf('PUT', '/api/ns/next', token, 'Content-Length: 1', '', 'x')
    socket.write(`${'x'.repeat(9_000_000)}${next}`)
    await once(socket, 'close')
    expect(await env.sql("SELECT FROM lockstep.queues WHERE name = 'ns/next'")).toEqual([])
  },
)

test.each([
  ['PUT', '/api/ns/refused', 401],
  ['DELETE', '/api/ns/any/job/01M8PXNH1EFSSHNDWE6K60YMTV', 204],
  ['GET', '/nowhere', 404],
] as const)(
  '%s %s: where the answer comes before the body, and does not end the connection, the next request is answered',
  async (method, path, status) => {
    const { port, token } = await served()
    const own = status === 401 ? 'wrong' : token
    const socket = connect(port, '127.0.0.1')
    env.later(() => socket.destroy())
    socket.write(headOf(method, path, own, 'Content-Length: 5', '', ''))
    const [first] = await once(socket, 'data')
    expect(String(first)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} .*connection: keep-alive`, 'is'))
    socket.write(`12345${headOf('PUT', '/api/ns/others', token, 'Content-Length: 1', '', 'x')}`)
    const [second] = await once(socket, 'data')
    expect(String(second)).toContain('HTTP/1.1 201')
  },
)

test('while the server closes what it has answered, requests behind an answer are not performed', async () => {
  const performed: (string | undefined)[] = []
  const { server, port } = await serverOf(({ url }, outgoing) => {
    performed.push(url)
    outgoing.end()
  })
  server.closeAnswered()
  const answers = await raw(
    port,
    `${headOf('GET', '/first', '')}\r\n\r\n${headOf('GET', '/second', '')}\r\n\r\n`,
  )
  expect(answers.match(/HTTP\/1\.1 200/g)).toHaveLength(1)
  expect(answers).toMatch(/connection: close/i)
  expect(performed).toEqual(['/first'])
})

test.each(PLACES)('%s: a request smuggled behind another length is refused', async (_, method, path) => {
  const { port, token } = await served()
  const head = headOf(method, path, token, 'Transfer-Encoding: chunked', 'Content-Length: 4', '', '')
  const second = `PUT /api/ns/smuggled HTTP/1.1\r\nX-Token: ${token}\r\n\r\n`
  const answers = await raw(port, head, `0\r\n\r\n${second}`)
  expect(answers.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 400'])
  const twice = headOf(method, path, token, 'Content-Length: 4', 'Content-Length: 5', '', '')
  expect(await raw(port, twice, 'abcde')).toMatch(/^HTTP\/1\.1 400 /)
  expect(await env.sql("SELECT FROM lockstep.queues WHERE name = 'ns/smuggled'")).toEqual([])
})

test.each(PLACES)('%s: headers of more than 16 KiB are refused', async (_, method, path) => {
  const { port, token } = await served()
  const head = headOf(method, path, token, `X-Large: ${'x'.repeat(16 * 1024)}`, '', '')
  expect(await raw(port, head)).toMatch(/^HTTP\/1\.1 431 /)
})

test.each(['a b', 'u@x', 'x#', 'x?limit=1', 'x/y', 'x:99999', '[::1'])(
  '/v1: the Host %j is malformed, and the answer has a request id',
  async (host) => {
    const { port, token } = await served()
    const head = headOf('POST', '/v1/claim?nonsense=1', token, 'Connection: close', '', '')
    const answer = await raw(port, head.replace('Host: here', `Host: ${host}`))
    expect(answer).toMatch(/^HTTP\/1\.1 400 /)
    expect(answer).toMatch(/^x-request-id: \S+/im)
  },
)

test('CONNECT is answered, and the answer has a request id', async () => {
  const { port, token } = await served()
  const answer = await raw(port, headOf('CONNECT', 'elsewhere:443', token, '', ''))
  expect(answer).toMatch(/^HTTP\/1\.1 405 /)
  expect(answer).toMatch(/^x-request-id: \S+/im)
})

test('a client that resets its connection after CONNECT does no harm', async () => {
  const { port, token } = await served()
  for (let n = 0; n < 5; n += 1) {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    await once(socket, 'connect')
    socket.write(headOf('CONNECT', 'elsewhere:443', token, '', ''))
    await sleep(n * 20)
    socket.resetAndDestroy()
  }
  const headers = { 'x-token': token, 'content-type': 'application/json' }
  await sleep(100)
  expect((await send(port, 'POST', '/v1/claim', { headers, body: '{"queues":"others"}' })).status).toBe(200)
})

test('the answer to CONNECT takes no other answer’s place', async () => {
  const { port, token } = await served()
  const head = headOf('PUT', '/api/ns/before', token, 'Content-Length: 1', '', 'x')
  expect(await raw(port, `${head}${headOf('CONNECT', 'elsewhere:443', token, '', '')}`)).not.toContain(
    ' 405 ',
  )
})

test.each(PLACES.slice(0, 2))('%s: a proxy may send whole URLs', async (_, method, path) => {
  const { port, token } = await served()
  const body = '{"queues":"others"}'
  const head = headOf(
    method,
    `http://elsewhere:1${path}`,
    token,
    `Content-Length: ${body.length}`,
    'Connection: close',
    '',
    body,
  )
  expect(await raw(port, head)).toMatch(/^HTTP\/1\.1 20[01] /)
})

test('the access log has paths, not what a proxy puts before them', async () => {
  const paths: string[] = []
  const listener = observed(
    (_, outgoing) => outgoing.end(),
    ({ path }) => paths.push(path),
  )
  const { port } = await serverOf(listener)
  await raw(
    port,
    headOf('GET', 'http://user:secret@elsewhere:1/v1/stats?x', 'x', 'Connection: close', '', ''),
  )
  expect(paths).toEqual(['/v1/stats'])
})

import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test, vi } from 'vitest'
import { createApi } from '../../src/http/api/api.ts'
import { fetchHandler } from '../../src/http/from-fetch.ts'
import { nodeListener } from '../../src/http/from-node.ts'
import { createLmstfy } from '../../src/http/lmstfy/lmstfy.ts'
import { byPrefix } from '../../src/http/server.ts'
import { useWorkers } from '../support/worker-environment.ts'
import { send } from './lmstfy/wire.ts'

const env = useWorkers()

const MOST = 4_000

/** Both APIs in one server, with one bound. */
async function openBoth() {
  const lmstfy = createLmstfy({ pools: { default: env.lockstep }, maxBodies: MOST })
  const v1 = createApi(env.lockstep, { access: 'open' }, { bodies: lmstfy.bodies })
  const server = createServer(byPrefix({ '': nodeListener(lmstfy.api), '/v1': v1.node })).listen(0)
  await once(server, 'listening')
  env.later(async () => {
    await Promise.all([lmstfy.stop(), v1.stop()])
    server.closeAllConnections()
    server.close()
  })
  const made = await fetchHandler(lmstfy.admin)(
    new Request('http://here/token/ns?description=x', { method: 'POST' }),
  )
  const { token } = (await made.json()) as { token: string }
  const { port } = server.address() as AddressInfo
  const json = { 'content-type': 'application/json' }
  return {
    port,
    token,
    publish: (bytes: number) =>
      send(port, 'PUT', '/api/ns/q', { headers: { 'x-token': token }, body: 'x'.repeat(bytes) }),
    push: (bytes: number) =>
      send(port, 'POST', '/v1/queues/q/jobs', {
        headers: json,
        body: JSON.stringify({ id: 'a', payload: 'x'.repeat(bytes) }),
      }),
  }
}

test('while too many bytes of bodies are under way, both APIs answer 503; one body is always taken', async () => {
  const { port, token, publish, push } = await openBoth()
  expect((await publish(2 * MOST)).status).toBe(201)
  expect((await push(2 * MOST)).status).toBe(200)
  const slow = request({
    port,
    method: 'PUT',
    path: '/api/ns/q',
    headers: { 'x-token': token, 'content-length': 2 * MOST },
  })
  // Sent before the next one begins: whose body comes first is always taken, and then this one would be refused.
  await new Promise((resolve) => slow.write('x'.repeat(MOST - 500), resolve))
  const refused = await vi.waitFor(
    async () => {
      const answer = await publish(1_000)
      expect(answer.status).toBe(503)
      return answer
    },
    { timeout: 10_000 },
  )
  expect(refused.headers['retry-after']).toBe('1')
  expect(refused.json).toEqual({ error: 'too many bytes are under way here: send it again' })
  const problem = await push(1_000)
  expect([problem.status, problem.headers['retry-after'], JSON.parse(problem.text).code]).toEqual([
    503,
    '1',
    'LOCKSTEP_BUSY',
  ])
  expect([(await publish(200)).status, (await push(200)).status]).toEqual([201, 200])
  // It came first.
  slow.end('x'.repeat(MOST + 500))
  const [response] = await once(slow, 'response')
  expect(response.statusCode).toBe(201)
  expect([(await publish(1_000)).status, (await push(1_000)).status]).toEqual([201, 200])
})

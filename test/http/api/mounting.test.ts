import { createServer } from 'node:http'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { lockstepApi } from '../../../src/http/index.ts'
import { Lockstep } from '../../../src/index.ts'
import { type Site, serve } from '../../web/site.ts'
import { useGateways } from './gateway.ts'

const { env, open, name } = useGateways()

const opened: { stop(): Promise<void> }[] = []
afterEach(async () => {
  for (const api of opened.splice(0)) await api.stop()
})

function apiAt(path?: string) {
  const api = lockstepApi(env.lockstep, { access: 'open', path })
  opened.push(api)
  return api
}

async function works(site: Site, base: string): Promise<void> {
  const queue = name()
  const place = `${base}/queues/${encodeURIComponent(queue)}`
  expect((await site.ask(`${place}/jobs`, { body: { id: 'a/b', payload: { n: 1 } } })).json).toEqual({
    stored: 1,
  })
  const { jobs } = (await site.ask(`${base}/claim`, { body: { queues: queue } })).json
  expect(jobs).toMatchObject([{ queue, id: 'a/b', payloads: [{ payload: { n: 1 } }] }])
  expect((await site.ask(`${place}/jobs/a%2Fb`)).json.jobs).toMatchObject([{ id: 'a/b' }])
  expect((await site.ask(`${base}/openapi.json`)).json.servers).toEqual([{ url: base }])
  expect((await site.ask(`${base}/nothing`)).json.code).toBe('LOCKSTEP_NOT_FOUND')
}

describe('mounted in', () => {
  test('node:http', async () => {
    const { node } = apiAt()
    const server = createServer(node)
    await works(await serve(server.listeners('request')[0] as never), '/v1')
  })

  test.each(['/v1', '/shop/jobs'])('Express at %s, also where a body was parsed before', async (path) => {
    const app = express()
    app.use(path, apiAt().node)
    await works(await serve(app), path)
    const parsing = express()
    parsing.use(express.json())
    parsing.use(path, apiAt().node)
    await works(await serve(parsing), path)
  })

  test('Express, where something has read an empty body before', async () => {
    const app = express().use(express.json(), express.text(), express.urlencoded())
    const site = await serve(app.use('/v1', apiAt().node))
    const queue = `/v1/queues/${encodeURIComponent(name())}`
    await site.ask(`${queue}/jobs`, { body: { id: 'a' } })
    const headers = { 'content-type': 'application/json' }
    const paused = await site.ask(`${queue}/pause`, { method: 'POST', headers, body: '' })
    expect([paused.status, paused.json.paused]).toEqual([200, true])
    const pushed = await site.ask(`${queue}/jobs`, { method: 'POST', headers, body: '' })
    expect([pushed.status, pushed.json.code]).toEqual([400, 'LOCKSTEP_BAD_JSON'])
    const ofEach = express().use(express.text({ type: () => true }))
    const plain = await serve(ofEach.use('/v1', apiAt().node))
    const { status, json } = await plain.ask(`${queue}/resume`, {
      method: 'POST',
      headers: { 'content-length': '0' },
    })
    expect([status, json.paused]).toEqual([200, false])
  })

  test('Fastify', async () => {
    const app = fastify()
    const { node } = apiAt()
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('*', (_request, _payload, done) => done(null))
    app.all('/v1/*', async (request, reply) => {
      reply.hijack()
      await node(request.raw, reply.raw)
    })
    await app.ready()
    await works(await serve((incoming, outgoing) => app.routing(incoming, outgoing)), '/v1')
  })

  test('Hono, and whatever speaks fetch', async () => {
    const app = new Hono()
    const { fetch } = apiAt('/jobs/v1')
    app.all('/jobs/v1/*', ({ req }) => fetch(req.raw))
    const post = (path: string, body: object) =>
      app.request(`http://here${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
    const queue = name()
    expect(
      await (await post(`/jobs/v1/queues/${encodeURIComponent(queue)}/jobs`, { id: 'a' })).json(),
    ).toEqual({ stored: 1 })
    expect(await (await post('/jobs/v1/claim', { queues: queue })).json()).toMatchObject({
      jobs: [{ id: 'a' }],
    })
  })
})

test('HEAD has the headers of GET', async () => {
  const { site } = await open()
  const answer = await site.ask('/v1/openapi.json', { method: 'HEAD' })
  expect([answer.status, answer.text]).toEqual([200, ''])
  expect(answer.headers.get('content-type')).toBe('application/json')
})

describe('stop', () => {
  test('answers claims that wait, lets requests end, and refuses new ones', async () => {
    const { api, post } = await open()
    const queue = name()
    const waiting = post('/claim', { queues: queue, wait: 60 })
    await vi.waitFor(async () => {
      const [row] = await env.sql<{ is: boolean }>(
        'SELECT lockstep.has_listener(q.queue_id) AS is FROM lockstep.queues q WHERE name = $1',
        [queue],
      )
      expect(row?.is).toBe(true)
    }, 10_000)
    const pushing = Array.from({ length: 20 }, (_, at) =>
      post(`/queues/${encodeURIComponent(queue)}/jobs`, { id: at }),
    )
    await pushing[0]
    const stopped = api.stop()
    expect((await waiting).status).toBe(200)
    const answers = await Promise.all(pushing)
    await stopped
    const stored = answers.filter(({ status }) => status === 200).length
    const refused = answers.filter(
      ({ status, json }) => status === 503 && json.code === 'LOCKSTEP_CLOSED',
    ).length
    expect(stored + refused).toBe(20)
    const late = await post('/claim', { queues: queue })
    expect([late.status, late.json.code, late.headers.get('retry-after')]).toEqual([
      503,
      'LOCKSTEP_CLOSED',
      '1',
    ])
    expect(await api.stop()).toBe(undefined)
  })

  test('of an API that nobody has used connects to nothing', async () => {
    const lockstep = new Lockstep({ connectionString: 'postgres://nobody@127.0.0.1:1/none' })
    const api = lockstepApi(lockstep, { access: 'open' })
    await api.stop()
    await lockstep.close()
  })
})

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import Fastify from 'fastify'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { lockstepWeb } from '../../src/web/index.ts'
import { ROOT } from '../support/package.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'
import { type Answer, basic, linesOf, Site, serve } from './site.ts'

vi.setConfig({ testTimeout: 60_000 })

let env: StoreEnvironment
let queue: TestQueue
const children: ChildProcess[] = []

beforeAll(async () => {
  env = await openStore()
  queue = await env.queue()
})
afterAll(() => env.close())
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.kill('SIGKILL')
    await once(child, 'close')
  }
})

/** A port that is free. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** Runs a script as an application would, and resolves once it listens. */
async function start(script: string, ...args: string[]): Promise<Site> {
  const port = await freePort()
  const parameters = ['--conditions=pg-lockstep-source', '--import', 'tsx', script, ...args]
  const child = spawn(process.execPath, parameters, {
    cwd: ROOT,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      ...process.env,
      DATABASE_URL: env.connectionString,
      PORT: String(port),
      ADMIN_KEY: 'sesame',
      GUEST_KEY: 'simsim',
    },
  })
  children.push(child)
  const site = new Site(`http://127.0.0.1:${port}`)
  await vi.waitFor(() => site.ask('/'), { timeout: 30_000, interval: 50 })
  return site
}

/** All that depends on how the page is mounted. */
async function check(site: Site, headers: Record<string, string>): Promise<void> {
  const jobs = `/jobs/api/v1/queues/${encodeURIComponent(queue.queue.name)}/jobs`
  await queue.push({ id: 'a/b', payload: 'é', performIn: Date.now() + 3_600_000 })
  expect((await site.ask('/jobs')).status).toBeGreaterThanOrEqual(401)
  const page = await site.ask('/jobs', { headers })
  expect([page.status, page.text]).toEqual([200, expect.stringContaining(queue.queue.name)])
  expect((await site.ask('/jobs/', { headers })).status).toBe(200)
  const session = await site.ask('/jobs/api/v1/session', { headers })
  expect(session.json.base).toBe('/jobs')
  expect(session.headers.getSetCookie()).toEqual([
    expect.stringMatching(/^lockstep-token=[\w-]{43}; Path=\/jobs; HttpOnly; SameSite=Strict$/),
  ])
  const found = await site.ask(`${jobs}?ids=a%2Fb&limit=1`, { headers })
  expect(found.json.items).toMatchObject([{ id: 'a/b', payloads: { first: [{ json: '"é"' }] } }])
  const done = await site.ask(`${jobs}/delete`, {
    body: { ids: ['a/b', 'ü'] },
    headers: { ...headers, ...site.from(await site.visit('/jobs', headers)) },
  })
  expect(linesOf(done).at(-1)).toEqual({ result: { done: 1, total: 1 } })
  expect(await queue.countJobs()).toBe(0)
}

const admin = basic('admin', 'sesame')

describe('the examples of docs/web.md work: mounted in', () => {
  it('Express', async () => {
    const site = await start('docs/examples/web/express.ts')
    await check(site, { authorization: 'Bearer sesame' })
  })

  it('Fastify', async () => check(await start('docs/examples/web/fastify.ts'), admin))
  it('Hono', async () => check(await start('test/web/hosts/fetch.ts', 'hono'), admin))
  it('Next.js', async () => check(await start('test/web/hosts/fetch.ts', 'next'), admin))

  it('node:http', async () => {
    const site = await start('docs/examples/web/node.ts')
    await check(site, admin)
    const guest = basic('guest', 'simsim')
    expect((await site.ask('/jobs/api/v1/session', { headers: guest })).json.may.act).toBe(false)
  })

  it('and they are what the page says', () => {
    const lines = (text: string) => text.trim().replaceAll(/^ +/gm, '')
    const blocks = [
      ...readFileSync('docs/web.md', 'utf8').matchAll(/^```ts\n\/\/ ([\w-]+)\.ts\n(.*?)^```/gms),
    ]
    expect(blocks.map(([, name]) => name).sort()).toEqual(['express', 'fastify', 'hono', 'next', 'node'])
    for (const [, name, code] of blocks)
      expect(lines(readFileSync(`docs/examples/web/${name}.ts`, 'utf8'))).toContain(lines(code!))
  })
})

describe('in Express', () => {
  const web = () => lockstepWeb(env.lockstep, { access: 'open' })
  const pause = () => `/api/v1/queues/${encodeURIComponent(queue.queue.name)}/perform-now`

  /** A form, as one might post it. */
  const form = async (site: Site, base: string): Promise<Answer> =>
    site.ask(`${base}/api/v1/queues/${encodeURIComponent(queue.queue.name)}/reshard`, {
      body: 'shards=3',
      headers: {
        ...site.from(await site.visit(base)),
        'content-type': 'application/x-www-form-urlencoded',
      },
    })

  it('finds out where it is mounted, under routers and parameters', async () => {
    const router = express.Router().use('/jobs', web().node)
    const site = await serve(express().use('/:tenant/admin', router) as never)
    const session = await site.ask('/acme/admin/jobs/api/v1/session')
    expect(session.json.base).toBe('/acme/admin/jobs')
    const strange = await site.ask('/a%3Bb/admin/jobs/api/v1/session')
    expect(strange.headers.getSetCookie()[0]).toContain('Path=/a%3Bb/admin/jobs;')
  })

  it('`path` wins, for proxies that change it', async () => {
    const node = lockstepWeb(env.lockstep, { access: 'open', path: '/outside' }).node
    const site = await serve(express().use('/inside', node) as never)
    expect((await site.ask('/inside/api/v1/session')).json.base).toBe('/outside')
  })

  it.each([
    ['no parser', []],
    ['JSON', [express.json()]],
    ['text', [express.text({ type: '*/*' })]],
    ['raw', [express.raw({ type: '*/*' })]],
  ])('takes bodies that were parsed before: %s', async (_, parsers) => {
    await queue.push({ id: 'ä', performIn: 0 })
    const app = express()
    for (const parser of parsers) app.use(parser)
    const site = await serve(app.use('/jobs', web().node) as never)
    const path = `/jobs${pause().replace('perform-now', 'jobs/delete')}`
    const done = await site.ask(path, { body: { ids: ['ä'] }, headers: site.from(await site.visit('/jobs')) })
    expect(linesOf(done).at(-1)).toEqual({ result: { done: 1, total: 1 } })
  })

  it('a form is no JSON, parsed or not', async () => {
    for (const app of [express(), express().use(express.urlencoded())]) {
      const site = await serve(app.use('/jobs', web().node) as never)
      expect((await form(site, '/jobs')).json).toMatchObject({ status: 400, detail: 'the body is not JSON' })
    }
  })
})

describe('in Fastify', () => {
  it('takes bodies that it parsed, if they are passed on', async () => {
    await queue.push({ id: 'a', performIn: 0 })
    const web = lockstepWeb(env.lockstep, { access: 'open', path: '/jobs' })
    const app = Fastify()
    app.all('/jobs/*', (request, reply) => {
      reply.hijack()
      web.node(Object.assign(request.raw, { body: request.body }), reply.raw)
    })
    const site = new Site(await app.listen({ port: 0, host: '127.0.0.1' }))
    const done = await site.act(
      `/api/v1/queues/${encodeURIComponent(queue.queue.name)}/jobs/delete`,
      { all: true },
      '/jobs',
    )
    expect(linesOf(done).at(-1)).toMatchObject({ result: { done: 1 } })
    await app.close()
  })
})

describe('in node:http', () => {
  it('at the root, and with whole URLs from a proxy', async () => {
    const site = await serve(lockstepWeb(env.lockstep, { access: 'open' }).node)
    expect((await site.ask('/')).status).toBe(200)
    expect((await site.ask('//evil.example/')).status).toBe(404)
    expect((await site.ask(`${site.origin}/api/v1/session?x=1`)).status).toBe(400)
  })

  it('a malformed Host is refused', async () => {
    const site = await serve(lockstepWeb(env.lockstep, { access: 'open' }).node)
    expect((await site.ask('/', { headers: { host: 'a b' } })).status).toBe(400)
  })
})

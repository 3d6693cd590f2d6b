import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { Lockstep } from '../../src/lockstep.ts'
import { lockstepWeb, type WebAction, type WebOptions } from '../../src/web/index.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'
import { basic, type Site, serve } from './site.ts'

let env: StoreEnvironment
let queue: TestQueue
beforeAll(async () => {
  env = await openStore()
  queue = await env.queue()
  await queue.push({ id: 'a', payload: 'secret payload' })
})
afterAll(() => env.close())

const OPEN: WebOptions = { access: 'open' }
const serving = (options: WebOptions) => serve(lockstepWeb(env.lockstep, options).node)
const pausing = () => `/api/v1/queues/${encodeURIComponent(queue.queue.name)}/pause`

async function isPaused(): Promise<boolean> {
  const [row] = await env.query<{ paused: boolean }>(
    'SELECT paused_at IS NOT NULL AS paused FROM lockstep.queues WHERE queue_id = $1',
    [queue.queueId],
  )
  await env.lockstep.resume(queue.queue)
  return row!.paused
}

describe('without a choice', () => {
  it.each([
    ['none is given', {}, /one of `authorize`, `basicAuth` or `access: 'open'`: none is given/],
    ['two are given', { access: 'open', authorize: () => true }, /authorize and access are given/],
    ['another access', { access: 'closed' }, /access must be 'open'/],
    ['a misspelt option', { acess: 'open' }, /unknown option `acess`, did you mean `access`/],
    ['no function', { authorize: true }, /authorize must be a function/],
    ['no users', { basicAuth: [] }, /at least one user/],
    ['an empty password', { basicAuth: { username: 'a', password: '' } }, /is a variable not set/],
    [
      'a password that is missing',
      { basicAuth: { username: 'a', password: undefined } },
      /password must be text/,
    ],
    ['a colon in a name', { basicAuth: { username: 'a:b', password: 'x' } }, /without a colon/],
    [
      'an unknown role',
      { basicAuth: { username: 'a', password: 'x', role: 'admin' } },
      /view, act, configure/,
    ],
    [
      'a name twice',
      { basicAuth: [1, 2].map((n) => ({ username: 'a', password: `${n}` })) },
      /names "a" twice/,
    ],
    ['a relative path', { ...OPEN, path: 'jobs' }, /path must be a path such as \/jobs/],
    ['a path that leads up', { ...OPEN, path: '/jobs/../x' }, /path must be/],
    ['a path with a cookie’s end', { ...OPEN, path: '/jobs;x' }, /path must be/],
    ['no list of origins', { ...OPEN, origins: 'https://a.example' }, /origins must be a list/],
    [
      'an origin with a path',
      { ...OPEN, origins: ['https://a.example/jobs'] },
      /origins\[0\] must be an origin/,
    ],
    ['text for a switch', { ...OPEN, readOnly: 'yes' }, /readOnly must be true or false/],
    ['no redaction', { ...OPEN, redact: {} }, /redact must be a function/],
  ])('%s: an OptionError', (_, options, message) => {
    expect(() => lockstepWeb(env.lockstep, options as WebOptions)).toThrow(message)
  })

  it('something else than a Lockstep: an OptionError', () => {
    expect(() => lockstepWeb({} as Lockstep, OPEN)).toThrow(/must be a Lockstep/)
  })
})

describe('authorize', () => {
  it('decides each request by what it does', async () => {
    const asked: WebAction[] = []
    const site = await serving({
      authorize: (request, action) => {
        asked.push(action)
        return request.headers.get('x-key') === 'let me in' && action !== 'configure'
      },
    })
    const headers = { 'x-key': 'let me in' }
    expect((await site.ask('/api/v1/queues')).status).toBe(403)
    expect((await site.ask('/')).status).toBe(403)
    expect((await site.ask('/nowhere')).status).toBe(403)
    expect((await site.ask('/api/v1/queues', { headers })).status).toBe(200)
    const jobs = `/api/v1/queues/${encodeURIComponent(queue.queue.name)}/jobs/perform-now`
    expect((await site.ask(jobs, { headers, body: { ids: ['a'] } })).status).toBe(200)
    asked.length = 0
    const refused = await site.ask(pausing(), { headers, body: {} })
    expect(refused.status).toBe(403)
    expect(refused.json).toMatchObject({ code: 'LOCKSTEP_FORBIDDEN', detail: 'you may not configure here' })
    expect(asked).toEqual(['configure'])
    expect(await isPaused()).toBe(false)
  })

  it.each([
    ['throws', () => Promise.reject(new Error('the session store is gone'))],
    ['returns nothing', () => undefined],
    ['returns something else', () => ({ user: 'anna' }) as never],
    ['returns text', () => 'yes' as never],
  ])('that %s refuses', async (_, authorize) => {
    const lockstep = new Lockstep({
      pool: env.database.pool,
      logger: { debug() {}, info() {}, warn() {}, error() {} },
    })
    const site = await serve(lockstepWeb(lockstep, { authorize }).node)
    const answer = await site.ask('/api/v1/queues')
    expect(answer.status).toBe(403)
    expect(answer.text).not.toContain('session store')
  })

  it('gets Node’s request, and can’t take the body away', async () => {
    const site = await serve((incoming, outgoing) => {
      Object.assign(incoming, { user: 'anna' })
      return lockstepWeb(env.lockstep, {
        authorize: async (request, _, node) => {
          expect(await request.text()).toBe('')
          return { actor: (node as unknown as { user: string }).user }
        },
      }).node(incoming, outgoing)
    })
    expect((await site.ask('/api/v1/session')).json).toMatchObject({ actor: 'anna' })
    expect((await site.ask(pausing(), { body: {} })).status).toBe(200)
    expect(await isPaused()).toBe(true)
  })
})

describe('an actor that the audit can’t hold', () => {
  it.each([
    ['too long', 'a'.repeat(300), `${'a'.repeat(199)}…`],
    ['with a zero byte', 'anna\u0000', 'anna\ufffd'],
    ['cut within a character', 'anna\ud83d', 'anna\ufffd'],
  ])('%s is made fit, so that it can act', async (_, actor, by) => {
    const site = await serving({ authorize: () => ({ actor }) })
    expect((await site.ask('/api/v1/session')).json).toMatchObject({ actor: by })
    expect((await site.ask(pausing(), { body: {} })).status).toBe(200)
    expect(await isPaused()).toBe(true)
    expect(await env.lockstep.audit({ limit: 1 })).toMatchObject([{ by, action: 'pause' }])
  })

  it('and is blank gets no access, and the log says why', async () => {
    const error = vi.fn()
    const logger = { debug() {}, info() {}, warn() {}, error }
    const lockstep = new Lockstep({ pool: env.database.pool, logger })
    const site = await serve(lockstepWeb(lockstep, { authorize: () => ({ actor: ' ' }) }).node)
    expect((await site.ask('/api/v1/queues')).status).toBe(403)
    expect(String(error.mock.calls[0]![0].error)).toMatch(/name who acts, or return true/)
  })

  it.each(['a'.repeat(201), ' ', 'a\u0000', '\ud83d'])('is no name of a user: %j', (username) => {
    expect(() => lockstepWeb(env.lockstep, { basicAuth: { username, password: 'x' } })).toThrow(
      /1 to 200 characters/,
    )
  })
})

describe('basic auth', () => {
  const basicAuth = [
    { username: 'vera', password: 'pass:word ä', role: 'view' },
    { username: 'carl', password: 'other' },
  ] as const

  it('lets in who knows a password, as far as the role goes', async () => {
    const site = await serving({ basicAuth })
    const none = await site.ask('/')
    expect(none.status).toBe(401)
    expect(none.headers.get('www-authenticate')).toBe('Basic realm="lockstep", charset="UTF-8"')
    for (const login of [
      basic('vera', 'other'),
      basic('carl', ''),
      basic('', 'other'),
      { authorization: 'Bearer x' },
    ])
      expect((await site.ask('/api/v1/queues', { headers: login })).status).toBe(401)
    const vera = basic('vera', 'pass:word ä')
    expect((await site.ask('/api/v1/session', { headers: vera })).json).toMatchObject({
      actor: 'vera',
      may: { view: true, act: false, configure: false },
    })
    expect((await site.ask(pausing(), { headers: vera, body: {} })).status).toBe(403)
    expect(await isPaused()).toBe(false)
    expect((await site.ask(pausing(), { headers: basic('carl', 'other'), body: {} })).status).toBe(200)
    expect(await isPaused()).toBe(true)
  })

  it('limits failed tries, whatever is tried next, and never answers with a password', async () => {
    const site = await serving({ basicAuth })
    const statuses: number[] = []
    for (let n = 0; n < 12; n += 1) {
      const answer = await site.ask('/', { headers: basic('carl', `guess ${n}`) })
      expect(answer.text).not.toContain('guess')
      statuses.push(answer.status)
    }
    expect(statuses).toEqual([...Array.from({ length: 10 }, () => 401), 429, 429])
    const right = await site.ask('/', { headers: basic('carl', 'other') })
    expect(right.status).toBe(429)
    expect(Number(right.headers.get('retry-after'))).toBeGreaterThan(0)
  })
})

describe('open', () => {
  it('lets everyone in, but nothing that another page may have sent', async () => {
    const site = await serving(OPEN)
    expect((await site.ask('/')).status).toBe(200)
    expect((await site.ask(pausing(), { body: {} })).status).toBe(403)
    expect((await site.act(pausing())).status).toBe(200)
    expect(await isPaused()).toBe(true)
  })
})

it('read-only refuses to act and to configure', async () => {
  const site = await serving({ ...OPEN, readOnly: true })
  expect((await site.ask('/api/v1/queues')).status).toBe(200)
  const refused = await site.act(pausing())
  expect(refused.status).toBe(403)
  expect(refused.json.detail).toBe('this page is read-only')
  expect(await isPaused()).toBe(false)
  expect((await site.ask('/api/v1/session')).json).toMatchObject({
    readOnly: true,
    may: { view: true, act: false, configure: false },
  })
})

describe('a request of another page', () => {
  let site: Site

  const forging = async (change: Record<string, string | undefined>, options: WebOptions = OPEN) => {
    site = await serving(options)
    const headers = { ...site.from(await site.visit()), ...change }
    const given = Object.entries(headers).filter((entry): entry is [string, string] => entry[1] !== undefined)
    const { status, json } = await site.ask(pausing(), { body: {}, headers: Object.fromEntries(given) })
    return { status, code: json.code as string | undefined, paused: await isPaused() }
  }
  const REFUSED = { status: 403, code: 'LOCKSTEP_FORGERY', paused: false }
  const DONE = { status: 200, code: undefined, paused: true }

  it.each([
    ['of another site', { 'sec-fetch-site': 'cross-site' }],
    ['of another subdomain', { 'sec-fetch-site': 'same-site' }],
    ['without a page', { 'sec-fetch-site': 'none' }],
    ['with a forged Origin', { origin: 'https://evil.example' }],
    ['with the Origin null', { origin: 'null' }],
    ['with an Origin that is no URL', { origin: 'evil' }],
    ['with the Origin of another port', { origin: 'http://127.0.0.1:1' }],
    ['with another scheme', { origin: 'file://127.0.0.1' }],
    ['without a token', { 'x-lockstep-token': undefined }],
    ['with a wrong token', { 'x-lockstep-token': 'x'.repeat(43) }],
    ['with a token and no cookie', { cookie: undefined }],
    ['with the cookie of another', { cookie: `lockstep-token=${'x'.repeat(43)}` }],
    [
      'with the cookie as token',
      { cookie: `lockstep-token=${'x'.repeat(43)}`, 'x-lockstep-token': 'x'.repeat(43) },
    ],
  ])('%s is refused', async (_, change) => {
    expect(await forging(change)).toEqual(REFUSED)
  })

  it('is told from ours by an old browser, too, which sends no Sec-Fetch-Site', async () => {
    expect(await forging({ 'sec-fetch-site': undefined })).toEqual(DONE)
  })

  it('has another origin than those that are listed', async () => {
    const options = { ...OPEN, origins: ['https://admin.example'] }
    expect(await forging({ origin: 'https://admin.example' }, options)).toEqual(DONE)
    expect(await forging({}, options)).toEqual(REFUSED)
  })

  it('is one without TLS for a page that has it', async () => {
    const web = lockstepWeb(env.lockstep, OPEN)
    const session = await web.fetch(new Request('https://a.example/api/v1/session'))
    const [cookie] = session.headers.getSetCookie()
    expect(cookie).toMatch(/^lockstep-token=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Secure$/)
    const { token } = (await session.json()) as { token: string }
    const post = (origin: string) =>
      web.fetch(
        new Request(`https://a.example${pausing()}`, {
          method: 'POST',
          headers: { origin, cookie: cookie!.split(';')[0]!, 'x-lockstep-token': token },
        }),
      )
    expect((await post('http://a.example')).status).toBe(403)
    expect(await isPaused()).toBe(false)
    expect((await post('https://a.example')).status).toBe(200)
    expect(await isPaused()).toBe(true)
  })

  it('can’t have a script’s credentials, and a form can’t send JSON', async () => {
    site = await serving({ basicAuth: { username: 'a', password: 'b' } })
    const headers = basic('a', 'b')
    const types = ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x']
    for (const type of types) {
      const sent = await site.ask(pausing(), { body: '{}', headers: { ...headers, 'content-type': type } })
      expect(sent.json.code).toBe('LOCKSTEP_FORGERY')
    }
    const origin = await site.ask(pausing(), { body: {}, headers: { ...headers, origin: site.origin } })
    expect(origin.json.code).toBe('LOCKSTEP_FORGERY')
    const cookie = await site.ask(pausing(), { body: {}, headers: { ...headers, cookie: 'a=b' } })
    expect(cookie.json.code).toBe('LOCKSTEP_FORGERY')
    expect(await isPaused()).toBe(false)
    expect((await site.ask(pausing(), { body: {}, headers })).status).toBe(200)
    expect(await isPaused()).toBe(true)
  })
})

describe('methods', () => {
  it('GET and HEAD change nothing', async () => {
    const site = await serving(OPEN)
    const { ROUTES } = await import('../../src/web/api/api.ts')
    const acts = ROUTES.filter(({ method }) => method === 'post')
    expect(acts.length).toBeGreaterThan(8)
    for (const { path } of acts) {
      const url = `/api/v1${path.replace('{queue}', encodeURIComponent(queue.queue.name))}`
      for (const method of ['GET', 'HEAD']) {
        const answer = await site.ask(url, { method })
        expect([url, method, answer.status]).toEqual([url, method, 405])
        expect(answer.headers.get('allow')).toBe('POST')
      }
    }
    expect(ROUTES.filter(({ method, needs }) => method === 'get' && needs !== 'view')).toEqual([])
    expect(await isPaused()).toBe(false)
    expect(await queue.set('a')).toHaveLength(1)
  })

  it('HEAD is GET without its body, and OPTIONS allows no other origin', async () => {
    const site = await serving(OPEN)
    const head = await site.ask('/api/v1/queues', { method: 'HEAD' })
    expect([head.status, head.text]).toEqual([200, ''])
    const headers = { origin: 'https://evil.example', 'access-control-request-method': 'POST' }
    for (const path of [pausing(), '/api/v1/queues', '/']) {
      const options = await site.ask(path, { method: 'OPTIONS', headers })
      expect(options.status).toBe(405)
      expect([...options.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([])
    }
  })

  it.each(['PUT', 'DELETE', 'PATCH'])('%s is refused', async (method) => {
    const site = await serving(OPEN)
    const headers = site.from(await site.visit())
    for (const path of ['/', '/api/v1/queues', pausing()])
      expect((await site.ask(path, { method, headers })).status).toBe(405)
  })
})

it('every answer forbids frames, other origins’ scripts, and caches', async () => {
  const site = await serving({ basicAuth: { username: 'a', password: 'b' } })
  for (const [path, headers] of [
    ['/', {}],
    ['/', basic('a', 'b')],
    ['/api/v1/stats', basic('a', 'b')],
    ['/nowhere', basic('a', 'b')],
    ['/api/v1/nowhere', basic('a', 'b')],
  ] as const) {
    const answer = await site.ask(path, { headers })
    expect(answer.headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    )
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
    expect(answer.headers.get('x-frame-options')).toBe('DENY')
    expect(answer.headers.get('referrer-policy')).toBe('same-origin')
    expect(answer.headers.get('cache-control')).toBe('no-store')
  }
})

it('logs who did what, without payloads and secrets', async () => {
  const info = vi.fn()
  const lockstep = new Lockstep({
    pool: env.database.pool,
    logger: { debug() {}, info, warn() {}, error() {} },
  })
  const site = await serve(
    lockstepWeb(lockstep, { basicAuth: { username: 'anna', password: 'sesame' } }).node,
  )
  const headers = basic('anna', 'sesame')
  const path = `/api/v1/queues/${encodeURIComponent(queue.queue.name)}/jobs/perform-now`
  await site.ask(path, { headers, body: { ids: ['a'] } })
  expect(info).toHaveBeenCalledWith(
    expect.objectContaining({
      event: 'web-action',
      action: 'performNow',
      queue: queue.queue.name,
      filter: { ids: ['a'] },
      actor: 'anna',
      done: 1,
    }),
    expect.any(String),
  )
  expect(JSON.stringify(info.mock.calls)).not.toMatch(/sesame|secret payload/)
})

import { describe, expect, test, vi } from 'vitest'
import { KnownTokens } from '../../../src/http/api/access/known-tokens.ts'
import { lockstepApi } from '../../../src/http/index.ts'
import type { Lockstep, TokenScope } from '../../../src/index.ts'
import { digestOfToken, newTokenText, type TokenGrant } from '../../../src/token.ts'
import { runHere } from '../../cli/in-process.ts'
import { eventually } from '../../support/worker-environment.ts'
import { below, type Gateway, useGateways } from './gateway.ts'

const { env, open, name } = useGateways()

async function tokenFor(scopes: readonly TokenScope[], queues?: readonly string[]) {
  const created = await env.lockstep.createToken({ name: name(), scopes, queues })
  return { ...created, headers: { authorization: `Bearer ${created.token}` } }
}

/** What each route answers a token. */
async function statuses({ get, post }: Gateway, queue: string, headers: Record<string, string>) {
  const claim = { queue, id: 'a', fence: '1' }
  const answers = await Promise.all([
    post(below(queue, '/jobs'), { id: 'a' }, headers),
    post('/claim', { queues: [queue] }, headers),
    post('/complete', claim, headers),
    post('/fail', { claims: [{ ...claim, error: 'x' }] }, headers),
    post('/extend', claim, headers),
    post('/release', claim, headers),
    get(below(queue, '/peek'), headers),
    get(below(queue, '/jobs'), headers),
    get(below(queue, '/dead'), headers),
    get(below(queue, '/stats'), headers),
    post(below(queue, '/pause'), {}, headers),
    post(below(queue, '/resume'), {}, headers),
    post(below(queue, '/reshard'), { shards: 20 }, headers),
    post(below(queue, '/dead/requeue'), { all: true }, headers),
    post(below(queue, '/dead/delete'), { all: true }, headers),
  ])
  return answers.map(({ status }) => status)
}

describe('tokens', () => {
  test('each scope allows its routes, and no others', async () => {
    const gateway = await open({ access: 'tokens' })
    const queue = name()
    await env.sql('SELECT lockstep.create_queue($1, 16)', [queue])
    const [ok, no] = [200, 403]
    const of = async (...scopes: TokenScope[]) => statuses(gateway, queue, (await tokenFor(scopes)).headers)
    expect(await of('produce')).toEqual([ok, ...Array(14).fill(no)])
    expect(await of('consume')).toEqual([no, ...Array(6).fill(ok), ...Array(8).fill(no)])
    expect(await of('admin')).toEqual([...Array(7).fill(no), ...Array(8).fill(ok)])
    expect(await of('produce', 'consume', 'admin')).toEqual(Array(15).fill(ok))
  })

  test('a token is good for its queues alone, also where the body names them', async () => {
    const gateway = await open({ access: 'tokens' })
    const [own, other] = [name(), name()]
    for (const queue of [own, other]) await env.sql('SELECT lockstep.create_queue($1, 16)', [queue])
    const { headers } = await tokenFor(['produce', 'consume', 'admin'], [own])
    expect(await statuses(gateway, own, headers)).toEqual(Array(15).fill(200))
    expect(await statuses(gateway, other, headers)).toEqual(Array(15).fill(403))
    const absent = name()
    const { headers: early } = await tokenFor(['produce', 'consume', 'admin'], [absent])
    const unknown = await gateway.get(below(absent, '/stats'), early)
    expect(unknown.json).toMatchObject({ status: 404, detail: 'the queue does not exist' })
    const both = await gateway.post('/claim', { queues: { [own]: 1, [other]: 1 } }, headers)
    expect([both.status, both.json.code]).toEqual([403, 'LOCKSTEP_FORBIDDEN'])
    const claims = [own, other].map((queue) => ({ queue, id: 'a', fence: '1' }))
    expect((await gateway.post('/complete', { claims }, headers)).status).toBe(403)
    const { queues } = (await gateway.get('/stats', headers)).json
    expect(queues.map(({ queue }: { queue: string }) => queue)).toEqual([own])
  })

  test.each([
    ['none', {}, 'a token is needed'],
    ['another kind of login', { authorization: 'Basic YTpi' }, 'a token is needed'],
    ['something else', { authorization: 'Bearer sesame' }, 'the token is wrong'],
    ['one that does not exist', { authorization: `Bearer ${newTokenText()}` }, 'the token is wrong'],
    ['SQL', { authorization: "Bearer lockstep_'OR''='" }, 'the token is wrong'],
  ])('401: %s', async (_, headers, detail) => {
    const { post } = await open({ access: 'tokens' })
    const answer = await post('/claim', { queues: 'a' }, headers as Record<string, string>)
    expect(answer.json).toMatchObject({
      status: 401,
      code: 'LOCKSTEP_LOGIN',
      detail: expect.stringContaining(detail),
    })
    expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer realm="lockstep"/)
  })

  test('nothing is read of a body before the token was checked', async () => {
    const api = lockstepApi(env.lockstep, { access: 'tokens' })
    let pulled = 0
    const body = new ReadableStream(
      {
        pull(controller) {
          pulled += 1
          controller.enqueue(new Uint8Array(1_000))
        },
      },
      { highWaterMark: 0 },
    )
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${newTokenText()}` }
    const init = { method: 'POST', headers, body, duplex: 'half' } as RequestInit
    expect((await api.fetch(new Request('http://here/v1/claim', init))).status).toBe(401)
    expect(pulled).toBe(0)
    await api.stop()
  })

  test('a deleted token is refused by every server within a second', async () => {
    const gateways = [await open({ access: 'tokens' }), await open({ access: 'tokens' })]
    const { headers, name } = await tokenFor(['consume'])
    const ask = (gateway: Gateway) => gateway.post('/claim', { queues: 'a' }, headers)
    for (const gateway of gateways) expect((await ask(gateway)).status).toBe(200)
    await env.lockstep.deleteToken(name)
    const deletedAt = performance.now()
    for (const gateway of gateways)
      await vi.waitFor(async () => expect((await ask(gateway)).status).toBe(401), 1_000)
    expect(performance.now() - deletedAt).toBeLessThan(2_000)
    for (const gateway of gateways) expect((await ask(gateway)).status).toBe(401)
  })

  describe('one that is deleted while its request waits', () => {
    /** Deletes it, and resolves when it's refused. */
    async function deleted({ post }: Gateway, { name, headers }: Awaited<ReturnType<typeof tokenFor>>) {
      await env.lockstep.deleteToken(name)
      await eventually(async () => expect((await post('/claim', { queues: 'a' }, headers)).status).toBe(401))
    }

    test('gets no job, and uses nothing up', async () => {
      const gateway = await open({ access: 'tokens' })
      const [queue, token] = [name(), await tokenFor(['consume'])]
      const waiting = gateway.post('/claim', { queues: queue, wait: 30, lease: 3_600 }, token.headers)
      await env.idle({ name: queue } as never)
      await deleted(gateway, token)
      const { headers } = await tokenFor(['produce', 'consume'])
      await gateway.post(below(queue, '/jobs'), { id: 'a' }, headers)
      expect((await waiting).json).toMatchObject({ status: 401, code: 'LOCKSTEP_LOGIN' })
      const { jobs } = (await gateway.post('/claim', { queues: queue, wait: 30 }, headers)).json
      expect(jobs).toMatchObject([{ id: 'a', retry_count: -1, crashes: 0 }])
    })

    test('gets no result', async () => {
      const gateway = await open({ access: 'tokens' })
      const [queue, token] = [name(), await tokenFor(['produce'])]
      const { headers } = await tokenFor(['produce', 'consume'])
      const push = gateway.post(`${below(queue, '/jobs')}?wait=30`, { id: 'pushed' }, token.headers)
      const stored = await gateway.post(`${below(queue, '/jobs')}?wait=0`, { id: 'asked' }, headers)
      const at = `${below(queue, '/results/asked')}?round=${stored.json.round}&wait=30`
      const look = gateway.get(at, token.headers)
      const claims: object[] = []
      while (claims.length < 2) {
        const { jobs } = (await gateway.post('/claim', { queues: queue, wait: 30, count: 2 }, headers)).json
        for (const { id, fence } of jobs) claims.push({ queue, id, fence, result: 'secret' })
      }
      await deleted(gateway, token)
      expect((await gateway.post('/complete', { claims }, headers)).status).toBe(200)
      expect([(await push).status, (await look).status]).toEqual([401, 401])
    })
  })

  test('what is stored is the hash alone, and a name is taken once', async () => {
    const { token, name: taken } = await tokenFor(['admin'])
    const rows = await env.sql('SELECT t::text AS row, digest FROM lockstep.api_tokens t WHERE name = $1', [
      taken,
    ])
    expect(rows).toEqual([{ row: expect.not.stringContaining(token.slice(9)), digest: digestOfToken(token) }])
    const again = env.lockstep.createToken({ name: taken, scopes: ['admin'] })
    await expect(again).rejects.toMatchObject({ code: 'LOCKSTEP_TOKEN_EXISTS' })
    const listed = (await env.lockstep.tokens()).find((one) => one.name === taken)
    expect(listed).toEqual({
      name: taken,
      scopes: ['admin'],
      queues: null,
      rate: null,
      createdAt: expect.any(Date),
    })
    await env.lockstep.deleteToken(taken, { by: 'anna' })
    await expect(env.lockstep.deleteToken(taken)).rejects.toMatchObject({ code: 'LOCKSTEP_UNKNOWN_TOKEN' })
    expect(await env.lockstep.audit({ limit: 1 })).toMatchObject([
      { by: 'anna', action: 'deleteToken', queue: null, details: { name: taken } },
    ])
  })

  test.each([
    [{ name: '', scopes: ['admin'] }, /name must be text of 1 to 200/],
    [{ name: 'a\u001b', scopes: ['admin'] }, /name must be text/],
    [{ name: 'a', scopes: [] }, /scopes must be a list/],
    [{ name: 'a', scopes: ['root'] }, /scopes must be a list of some of produce, consume, admin, not "root"/],
    [{ name: 'a', scopes: ['admin'], queues: [] }, /queues must be a list of names, or left out/],
    [{ name: 'a', scopes: ['admin'], queues: [''] }, /the name of a queue must not be empty/],
    [{ name: 'a', scopes: ['admin'], queue: 'b' }, /unknown option `queue`, did you mean `queues`/],
  ])('createToken refuses %j', async (options, message) => {
    await expect(env.lockstep.createToken(options as never)).rejects.toThrow(message)
  })

  test('admin acts are recorded under the name of the token', async () => {
    const { post } = await open({ access: 'tokens' })
    const queue = name()
    await env.sql('SELECT lockstep.create_queue($1, 16)', [queue])
    const { headers, name: by } = await tokenFor(['admin'])
    await post(below(queue, '/pause'), {}, headers)
    expect(await env.lockstep.audit({ limit: 1 })).toMatchObject([{ by, action: 'pause', queue }])
  })
})

describe('looking tokens up', () => {
  const [one, other] = ['a', 'b'].map((text) => digestOfToken(text)) as [Buffer, Buffer]
  const grant: TokenGrant = { name: 'a', scopes: ['admin'], queues: null, rate: null }

  test('all requests at once take one query, and those of the second after it none', async () => {
    const find = vi.fn(async (digests: readonly Buffer[]) => new Map([[digests[0]!.toString('hex'), grant]]))
    const known = new KnownTokens(find)
    expect(await Promise.all([known.find(one), known.find(other), known.find(one)])).toEqual([
      grant,
      undefined,
      grant,
    ])
    for (let count = 0; count < 100; count += 1) await known.find(count % 2 ? one : other)
    expect(find.mock.calls).toEqual([[[one, other]]])
  })

  test('after that, one query renews all that was used', async () => {
    const now = vi.spyOn(performance, 'now')
    const find = vi.fn(
      async (digests: readonly Buffer[]) => new Map(digests.map((each) => [each.toString('hex'), grant])),
    )
    const known = new KnownTokens(find)
    now.mockReturnValue(0)
    await known.find(one)
    await known.find(other)
    now.mockReturnValue(500)
    await known.find(one)
    await known.find(other)
    now.mockReturnValue(901)
    await known.find(other)
    await known.find(one)
    expect(find.mock.calls).toEqual([[[one]], [[other]], [[other, one]]])
    now.mockRestore()
  })

  test('a failure is told to those who wait, and the next request asks again', async () => {
    const find = vi.fn(async () => new Map([[one.toString('hex'), grant]]))
    find.mockRejectedValueOnce(new Error('down'))
    const known = new KnownTokens(find)
    const [first, second] = await Promise.allSettled([known.find(one), known.find(other)])
    expect([first!.status, second!.status]).toEqual(['rejected', 'rejected'])
    expect(await known.find(one)).toBe(grant)
  })
})

describe('other access', () => {
  test('authorize decides, before the body is read and for each queue that it names', async () => {
    const asked: unknown[] = []
    const gateway = await open({
      authorize(request, wanted, incoming) {
        asked.push([wanted, incoming?.method, request.body])
        return wanted.queue !== 'secret' && { actor: 'anna' }
      },
    })
    const queue = name()
    expect((await gateway.post(below(queue, '/jobs'), { id: 'a' })).status).toBe(200)
    expect((await gateway.post('/claim', { queues: [queue, 'secret'] })).status).toBe(403)
    expect((await gateway.get(below('secret', '/peek'))).status).toBe(403)
    expect(asked).toEqual([
      [{ scope: 'produce', queue }, 'POST', null],
      [{ scope: 'consume', queue: undefined }, 'POST', null],
      [{ scope: 'consume', queue }, 'POST', null],
      [{ scope: 'consume', queue: 'secret' }, 'POST', null],
      [{ scope: 'consume', queue: 'secret' }, 'GET', null],
    ])
  })

  test('counts are told of the queues that authorize allows', async () => {
    const [own, other] = [name(), name()]
    for (const queue of [own, other]) await env.sql('SELECT lockstep.create_queue($1)', [queue])
    const { get } = await open({ authorize: (_, { queue }) => queue === undefined || queue === own })
    const { queues } = (await get('/stats')).json
    expect(queues.map(({ queue }: { queue: string }) => queue)).toEqual([own])
  })

  test.each([undefined, null, 'yes', 1, { actor: 7 }, { actor: ' ' }, {}])(
    '%j of authorize is a no',
    async (answer) => {
      const { post } = await open({ authorize: () => answer as never })
      expect((await post('/claim', { queues: 'a' })).status).toBe(403)
    },
  )

  test('if authorize throws, the answer is no, and the log says why', async () => {
    const { post } = await open({
      authorize() {
        throw new Error('bad luck')
      },
    })
    expect((await post('/claim', { queues: 'a' })).status).toBe(403)
    expect(env.warnings.at(-1)).toMatchObject({ fields: { error: { message: 'bad luck' } } })
  })

  test.each([
    [{}, /say who may use the API/],
    [{ access: 'open', authorize: () => true }, /say who may use the API/],
    [{ access: 'all' }, /access must be 'tokens' or 'open', not "all"/],
    [{ authorize: true }, /authorize must be a function/],
    [{ access: 'open', path: 'v1' }, /path must be a path such as \/v1/],
    [{ access: 'open', maxBody: 0 }, /maxBody must be a whole number/],
    [{ access: 'open', maxJob: 1 }, /unknown option `maxJob`, did you mean `maxJobs`/],
    [{ access: 'open', queues: ['a'] }, /queues must be a list of what defineQueue/],
  ])('options %j are refused', (options, message) => {
    expect(() => lockstepApi(env.lockstep, options as never)).toThrow(message)
  })

  test('something that is no Lockstep is refused', () => {
    expect(() => lockstepApi({} as Lockstep, { access: 'open' })).toThrow(/must be a Lockstep/)
  })
})

test('lockstep token creates, lists and deletes', async () => {
  const run = (...args: string[]) => runHere(['token', ...args], { DATABASE_URL: env.connectionString })
  const { stdout, stderr, code } = await run(
    'create',
    'shop',
    '--scope',
    'produce',
    '--scope',
    'admin',
    '--queue',
    'orders',
  )
  expect([code, stderr]).toEqual([0, 'lockstep: keep the token: it is shown this once\n'])
  expect(stdout).toMatch(/^lockstep_[\w-]{43}\n$/)
  const { get } = await open({ access: 'tokens' })
  expect((await get('/stats', { authorization: `Bearer ${stdout.trim()}` })).status).toBe(200)
  expect((await run('create', 'shop', '--scope', 'consume')).stderr).toMatch(
    /there is a token with the name "shop"/,
  )
  expect((await run('list')).stdout).toMatch(/shop .* produce, admin .* orders/)
  expect(JSON.parse((await run('list', '--json')).stdout)).toContainEqual(
    expect.objectContaining({ name: 'shop', scopes: ['produce', 'admin'], queues: ['orders'] }),
  )
  expect((await run('create', 'x', '--scope', 'root')).code).toBe(2)
  expect((await run('create', 'x')).code).toBe(2)
  expect((await run('delete', 'shp')).stderr).toMatch(/no token with the name "shp": did you mean "shop"\?/)
  expect((await run('delete', 'shop')).stdout).toBe('token "shop" is deleted\n')
})

describe('rates', () => {
  async function limitedTo(requests: number, per: number) {
    const rate = { requests, per }
    const { token } = await env.lockstep.createToken({ name: name(), scopes: ['produce'], rate })
    return { authorization: `Bearer ${token}` }
  }

  /** How many of so many pushes, sent at once to each of these, were stored. */
  async function stored(gateways: readonly Gateway[], count: number, headers: Record<string, string>) {
    const queue = name()
    const answers = await Promise.all(
      gateways.flatMap(({ post }) =>
        Array.from({ length: count }, (_, n) => post(below(queue, '/jobs'), { id: n }, headers)),
      ),
    )
    for (const { status } of answers) expect([200, 429]).toContain(status)
    return answers.filter(({ status }) => status === 200).length
  }

  test('a token makes so many requests in a window, over all servers', async () => {
    const gateways = [await open({ access: 'tokens' }), await open({ access: 'tokens' })]
    const headers = await limitedTo(50, 3600)
    expect(await stored(gateways, 40, headers)).toBe(50)
    const refused = await gateways[0]!.post(below(name(), '/jobs'), { id: 'a' }, headers)
    expect(refused).toMatchObject({ status: 429, json: { code: 'LOCKSTEP_RATE_LIMITED' } })
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(3590)
    expect(await stored(gateways, 5, await limitedTo(50, 3600))).toBe(10)
  })

  test('a large limit is used to the last request, though servers take many at once', async () => {
    const gateways = [await open({ access: 'tokens' }), await open({ access: 'tokens' })]
    const headers = await limitedTo(130, 3600)
    expect(await stored(gateways, 100, headers)).toBe(130)
  })

  test('when its window is over, another one begins', async () => {
    const gateway = await open({ access: 'tokens' })
    const headers = await limitedTo(2, 1)
    expect(await stored([gateway], 3, headers)).toBe(2)
    await vi.waitUntil(async () => (await stored([gateway], 1, headers)) === 1, { timeout: 5_000 })
  })

  test('requests that may not be made use nothing up', async () => {
    const gateway = await open({ access: 'tokens' })
    const headers = await limitedTo(1, 3600)
    expect((await gateway.post('/claim', { queues: 'a' }, headers)).status).toBe(403)
    expect(await stored([gateway], 2, headers)).toBe(1)
  })

  test('the command line makes such tokens, and shows their rates', async () => {
    const run = (...args: string[]) => runHere(['token', ...args], { DATABASE_URL: env.connectionString })
    const token = name()
    const create = (rate: string, as = name()) => run('create', as, '--scope', 'produce', '--rate', rate)
    expect((await create('100/60', token)).code).toBe(0)
    expect(JSON.parse((await run('list', '--json')).stdout)).toContainEqual(
      expect.objectContaining({ name: token, rate: { requests: 100, per: 60 } }),
    )
    expect((await run('list')).stdout).toContain('100/60 s')
    for (const bad of ['100', '0/60', '100/0', '1/86401', 'x/y']) expect((await create(bad)).code).toBe(2)
  })
})

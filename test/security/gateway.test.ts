import { describe, expect, test, vi } from 'vitest'
import { ROUTES } from '../../src/http/api/routes/all.ts'
import { ROUTES as ADMIN_ROUTES } from '../../src/http/lmstfy/admin.ts'
import { ROUTES as LMSTFY_ROUTES } from '../../src/http/lmstfy/routes.ts'
import { defineQueue } from '../../src/index.ts'
import { Instruments } from '../../src/instruments.ts'
import { Database } from '../../src/postgres/database.ts'
import { consumersMaintenance } from '../../src/worker/maintenance/all.ts'
import { lockstep as command } from '../cli/command.ts'
import { type Answered, send } from '../http/lmstfy/wire.ts'
import { eventually } from '../support/worker-environment.ts'
import { prefix, SCHEMA, useRoles } from './role-environment.ts'
import { useServed } from './served-gateway.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

const env = useRoles()

describe('`lockstep serve` with the login of a gateway, and no other right', () => {
  const served = useServed(env, 'gateway')

  /** The last line of an answer that reports progress. */
  const resultOf = ({ text }: Answered) => JSON.parse(text.trimEnd().split('\n').at(-1)!)

  test('pushes, claims and settles over /v1, and hands out results', async () => {
    const { v1 } = served.gateway
    const jobs = '/queues/{queue}/jobs'
    const push = (body: unknown, more: object = {}) => v1('post', jobs, { queue: 'orders', body, ...more })
    expect((await push({ id: 'a', payload: 1 })).json).toEqual({ stored: 1 })
    for (const replayed of [undefined, 'true']) {
      const { json, headers } = await push(
        { jobs: [{ id: 'b' }, { id: 'c', tenant: 'acme' }] },
        { headers: { 'idempotency-key': 'k' } },
      )
      expect([json, headers['idempotency-replayed']]).toEqual([{ stored: 2 }, replayed])
    }
    const { json: pushed } = await push({ id: 'd' }, { query: '?wait=0' })
    const { json: claimed } = await v1('post', '/claim', { body: { queues: 'orders', count: 10, wait: 10 } })
    expect(claimed.jobs).toHaveLength(4)
    const claims = new Map<string, object>(
      claimed.jobs.map(({ queue, id, fence }: Record<string, string>) => [id, { queue, id, fence }]),
    )
    const settle = async (route: string, id: string, more: object = {}) =>
      expect((await v1('post', route, { body: { ...claims.get(id), ...more } })).json).toEqual({ held: true })
    await settle('/extend', 'a')
    await settle('/complete', 'a')
    await settle('/fail', 'b', { error: 'no', retry_in: 600 })
    await settle('/release', 'c')
    await settle('/complete', 'd', { result: 4 })
    const result = { queue: 'orders', id: 'd', query: `?round=${pushed.round}&wait=10` }
    expect((await v1('get', '/queues/{queue}/results/{id}', result)).json).toMatchObject({
      state: 'completed',
      result: 4,
    })
  })

  test('buries over /v1 what has failed too often, also in a queue with limits', async () => {
    const { v1 } = served.gateway
    const queue = 'failing'
    const owner = env.session('owner')
    await env.lockstep('producer').enqueue(defineQueue(queue), { id: 'a' })
    await owner.query(`UPDATE ${prefix}.jobs SET retry_count = 1000 WHERE id = 'a'`)
    await owner.query(
      `SELECT ${prefix}.set_limits(q.queue_id, '{"concurrency": 1}') FROM ${prefix}.queues q WHERE name = $1`,
      [queue],
    )
    const { json } = await v1('post', '/claim', { body: { queues: queue, wait: 10 } })
    const [{ id, fence }] = json.jobs
    expect((await v1('post', '/fail', { body: { queue, id, fence, error: 'no' } })).json).toEqual({
      held: true,
    })
    expect((await v1('get', '/queues/{queue}/dead', { queue })).json.payloads).toMatchObject([
      { id, error: 'no' },
    ])
  })

  test('looks at queues, jobs and the morgue over /v1', async () => {
    const { v1 } = served.gateway
    const queue = 'looked at'
    await env.lockstep('producer').enqueue(defineQueue(queue), [{ id: 'dead', payload: 1 }, { id: 'alive' }])
    for await (const _ of env.lockstep('owner').kill(queue, { ids: ['dead'] }));
    expect((await v1('get', '/queues/{queue}/peek', { queue })).json.jobs).toMatchObject([{ id: 'alive' }])
    expect((await v1('get', '/queues/{queue}/jobs', { queue })).json.jobs).toMatchObject([{ id: 'alive' }])
    expect((await v1('get', '/queues/{queue}/jobs/{id}', { queue, id: 'alive' })).json.jobs).toHaveLength(1)
    expect((await v1('get', '/queues/{queue}/dead', { queue })).json.payloads).toMatchObject([
      { id: 'dead', payload: 1 },
    ])
    expect((await v1('get', '/queues/{queue}/stats', { queue })).json.stats).toMatchObject({
      waiting: 1,
      dead: 1,
    })
    expect((await v1('get', '/stats')).json.queues).toContainEqual(expect.objectContaining({ queue }))
  })

  test('requeues, deletes, pauses, resumes and reshards over /v1, which the audit has', async () => {
    const { v1 } = served.gateway
    const queue = 'steered'
    const ids = Array.from({ length: 33 }, (_, number) => `tenant ${number}`)
    const push = (some: readonly string[]) =>
      env.lockstep('producer').enqueue(
        defineQueue(queue, { shards: 8 }),
        some.map((id) => ({ id, tenant: id })),
      )
    await push(ids.slice(0, 32))
    // All lanes are taken: it shares one, also when it comes back.
    await push(ids.slice(32))
    for await (const _ of env.lockstep('owner').kill(queue, { ids: ids.slice(30) }));
    await env
      .session('owner')
      .query(`DELETE FROM ${prefix}.tenant_lanes WHERE tenant = ANY ($1)`, [ids.slice(32)])
    const requeue = { queue, body: { ids: ids.slice(31) } }
    expect(resultOf(await v1('post', '/queues/{queue}/dead/requeue', requeue))).toMatchObject({
      result: expect.anything(),
    })
    expect(
      resultOf(await v1('post', '/queues/{queue}/dead/delete', { queue, body: { all: true } })),
    ).toMatchObject({ result: expect.anything() })
    expect(
      resultOf(await v1('post', '/queues/{queue}/reshard', { queue, body: { shards: 1 } })),
    ).toMatchObject({ result: expect.anything() })
    expect((await v1('post', '/queues/{queue}/pause', { queue })).json).toEqual({ queue, paused: true })
    expect((await v1('post', '/queues/{queue}/resume', { queue })).json).toEqual({ queue, paused: false })
    const { queues } = await env.lockstep('viewer').stats()
    expect(queues.find((one) => one.queue === queue)).toMatchObject({
      waiting: 32,
      dead: 0,
      shards: 1,
      pausedAt: null,
    })
    const entries = (await env.lockstep('viewer').audit()).filter((entry) => entry.queue === queue)
    expect(
      entries
        .map(({ action, by, role, error, endedAt }) => [action, by, role, error, endedAt !== null])
        .reverse(),
    ).toEqual(
      ['requeue', 'deleteDead', 'reshard', 'pause', 'resume'].map((action) => [
        ...[action, 'everything', env.logins.role('gateway'), null, true],
      ]),
    )
  })

  test('publishes, consumes and acknowledges over lmstfy’s API, also as a synchronous task', async () => {
    const { lmstfy } = served.gateway
    const { json: published } = await lmstfy('PUT', '', { body: 'one' })
    await lmstfy('PUT', '/bulk', { queue: 'bulk', body: '["two", "three"]' })
    const id = published.job_id
    expect((await lmstfy('GET', '/peek')).json.job_id).toBe(id)
    expect((await lmstfy('GET', '/job/:job_id', { id })).json.job_id).toBe(id)
    expect((await lmstfy('GET', '/size')).json.size).toBe(1)
    const { json: again } = await lmstfy('PUT', '/job/:job_id', { id, body: 'other' })
    expect((await lmstfy('GET', '', { query: '?timeout=10' })).json).toMatchObject({ job_id: again.job_id })
    const answer = lmstfy('GET', '', { queue: again.job_id, query: '?timeout=10' })
    await lmstfy('PUT', '', { queue: again.job_id, body: 'answer' })
    expect((await answer).status).toBe(200)
    expect((await lmstfy('DELETE', '/job/:job_id', { id: again.job_id })).status).toBe(204)
    expect((await lmstfy('GET', '/job/:job_id', { id: again.job_id })).status).toBe(404)
    expect((await lmstfy('GET', '', { queue: 'bulk,q', query: '?count=5' })).json).toHaveLength(2)
  })

  test('lets dead jobs of lmstfy’s API wait again, deletes them, and destroys queues', async () => {
    const { lmstfy } = served.gateway
    const queue = 'dying'
    await lmstfy('PUT', '/bulk', { queue, body: '["one", "two"]' })
    expect((await lmstfy('GET', '', { queue, query: '?count=2&ttr=1' })).json).toHaveLength(2)
    await eventually(async () =>
      expect((await lmstfy('GET', '/deadletter/size', { queue })).json.size).toBe(2),
    )
    expect((await lmstfy('GET', '/deadletter', { queue })).json).toMatchObject({ deadletter_size: 2 })
    expect((await lmstfy('PUT', '/deadletter', { queue })).json).toMatchObject({ count: 1 })
    expect((await lmstfy('DELETE', '/deadletter', { queue })).status).toBe(204)
    expect((await lmstfy('GET', '/deadletter/size', { queue })).json.size).toBe(0)
    expect((await lmstfy('GET', '/size', { queue })).json.size).toBe(1)
    expect((await lmstfy('DELETE', '', { queue })).status).toBe(204)
    expect((await lmstfy('GET', '/size', { queue })).json.size).toBe(0)
  })

  test('administers tokens and limits', async () => {
    const { admin, lmstfy } = served.gateway
    const { json } = await admin('POST', '/token/:namespace', { query: '?description=limited' })
    const { token } = json
    const limit = { token, body: '{"read": 5, "write": 1, "interval": 600}' }
    expect((await admin('POST', '/token/:namespace/:token/limit', limit)).status).toBe(201)
    expect((await admin('PUT', '/token/:namespace/:token/limit', limit)).status).toBe(200)
    expect((await admin('GET', '/token/:namespace/:token/limit', { token })).json).toEqual({
      read: 5,
      write: 1,
      interval: 600,
    })
    expect((await admin('GET', '/limits')).json).toMatchObject([{ token }])
    // What brings nothing is given back.
    for (let count = 0; count < 7; count += 1)
      expect((await lmstfy('GET', '', { queue: 'none', token })).status).toBe(404)
    for (const status of [201, 429])
      expect((await lmstfy('PUT', '', { queue: 'some', body: 'x', token })).status).toBe(status)
    expect((await admin('DELETE', '/token/:namespace/:token/limit', { token })).status).toBe(200)
    expect((await admin('DELETE', '/token/:namespace/:token', { token })).status).toBe(204)
    expect(Object.keys((await admin('GET', '/token/:namespace')).json.tokens)).not.toContain(token)
    for (const route of ['/pools', '/version', '/info', '/accesslog', '/debug/pprof'])
      expect((await admin('GET', route)).status).toBe(200)
    expect((await admin('GET', '/metrics')).text).toContain('queue_sizes{')
    expect((await admin('GET', '/debug/pprof/:name')).status).toBe(404)
    expect((await admin('POST', '/accesslog', { query: '?status=disable' })).status).toBe(200)
  })

  test('says how it is', async () => {
    const { port, adminPort } = served.gateway
    for (const place of [port, adminPort])
      for (const path of ['/healthz', '/readyz']) expect((await send(place, 'GET', path)).text).toBe('ok')
  })

  test('moves what a reshard left behind, and frees what a dead process had', async () => {
    const queue = 'left behind'
    const later = new Date('2999-01-01')
    const ids = Array.from({ length: 30 }, (_, number) => `later ${number}`)
    await env.lockstep('producer').enqueue(
      defineQueue(queue, { shards: 8 }),
      ['of the dead', ...ids].map((id) => ({ id, performIn: later })),
    )
    const owner = env.session('owner')
    const { rows } = await owner.query(
      `INSERT INTO ${prefix}.processes (host, pid, version, slots, queues, lease, expires_at)
       VALUES ('gone', 1, '0', 1, '{}', 500, clock_timestamp()) RETURNING process_id`,
    )
    await owner.query(
      `UPDATE ${prefix}.jobs SET perform_in = now(), claimed_by = $1, fence = nextval('${prefix}.fences') WHERE id = 'of the dead'`,
      [rows[0].process_id],
    )
    await owner.query(`UPDATE ${prefix}.queues SET shards = 1 WHERE name = $1`, [queue])
    const claim = served.gateway.v1('post', '/claim', { body: { queues: queue, wait: 20 } })
    // Consumers look at the queues and processes at once, when somebody has changed something.
    await env.lockstep('owner').resume(queue)
    const { json } = await claim
    expect(json.jobs).toMatchObject([{ id: 'of the dead', crashes: 1 }])
    await eventually(async () => {
      const { rows } = await owner.query(
        `SELECT (SELECT count(*)::integer FROM ${prefix}.jobs WHERE shard > 0 AND id LIKE 'later%') AS strays,
           (SELECT count(*)::integer FROM ${prefix}.processes WHERE host = 'gone') AS gone`,
      )
      expect(rows).toEqual([{ strays: 0, gone: 0 }])
    })
  })

  test('trims and removes what is kept for a limited time', async () => {
    await env
      .lockstep('producer')
      .enqueue(defineQueue('expiring'), { id: 'a', expiresIn: new Date(Date.now() + 1) })
    await env
      .session('owner')
      .query(
        `INSERT INTO ${prefix}.minute_counters (queue_id, minute, processed, failed) VALUES (1, '2001-01-01', 1, 0)`,
      )
    const database = new Database(env.session('gateway'), SCHEMA)
    const told: object[] = []
    const nothing = () => {}
    const logger = { debug: nothing, info: nothing, warn: nothing, error: nothing }
    const all = consumersMaintenance({
      ...{ logger, rebalanceInterval: 500, instruments: new Instruments([], logger) },
      ...{
        ledQueues: () => [],
        tenantWaits: () => [{ queueId: 1, waits: Array(32).fill(1), tenants: Array(32).fill('') }],
        onGone: nothing,
        onRemoved: nothing,
        onExpired: nothing,
      },
    })
    for (const one of all) told.push({ [one.name]: await one.run(database) })
    expect(told).toContainEqual({ trimming: expect.objectContaining({ minutes: 1 }) })
    expect(told).toContainEqual({ expiry: expect.objectContaining({ payloads: 1 }) })
  })

  test('every route of both APIs and of the administration was called, and nothing was refused by the database', async () => {
    const { called } = served.gateway
    expect([...called.v1].sort()).toEqual(ROUTES.map(({ method, path }) => `${method} ${path}`).sort())
    expect([...called.lmstfy].sort()).toEqual(
      LMSTFY_ROUTES.map(({ method, path }) => `${method} ${path}`).sort(),
    )
    expect([...called.admin].sort()).toEqual(Object.keys(ADMIN_ROUTES).sort())
    const log = await served.gateway.stop()
    expect(log).toContain('stopping')
    expect(log).not.toMatch(/denied|failed|could not/)
    const [counted] = (
      await env.session('owner').query(
        `SELECT c.processed, c.failed, (SELECT sum(m.processed) FROM ${prefix}.minute_counters m) AS minutes
         FROM ${prefix}.counters c JOIN ${prefix}.queues q USING (queue_id) WHERE q.name = 'failing'`,
      )
    ).rows
    expect(counted).toEqual({ processed: '1', failed: '1', minutes: expect.any(String) })
  })
})

test.each(['viewer', 'both'])(
  '`lockstep serve` with the login of a %s says what it lacks, and does not listen',
  async (login) => {
    const args = ['serve', '--json', '--port', '0', '--admin-port', '0', '--schema', SCHEMA]
    const { code, stdout, stderr } = await command(args, { env: { DATABASE_URL: env.logins.url(login) } })
    expect(stderr).toMatch(
      /^lockstep: the role "\w+ \w+" lacks rights that a gateway needs: .* and \d+ more; run the SQL from `lockstep roles` as the schema's owner, and grant the role for gateways to it$/m,
    )
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  },
)

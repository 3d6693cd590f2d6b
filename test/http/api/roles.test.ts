import { afterEach, expect, test } from 'vitest'
import { type LockstepApi, lockstepApi } from '../../../src/http/index.ts'
import { defineQueue, type TokenScope } from '../../../src/index.ts'
import { useRoles } from '../../security/role-environment.ts'
import { type Site, serve } from '../../web/site.ts'

const env = useRoles()
const opened: LockstepApi[] = []
afterEach(async () => {
  for (const api of opened.splice(0)) await api.stop()
})

async function siteOf(role: string): Promise<Site> {
  const api = lockstepApi(env.lockstep(role), { access: 'tokens' })
  opened.push(api)
  return serve(api.node)
}

async function tokenWith(...scopes: TokenScope[]): Promise<{ authorization: string }> {
  const { token } = await env.lockstep('owner').createToken({ name: scopes.join(), scopes })
  return { authorization: `Bearer ${token}` }
}

test('a producer’s role takes pushes, with keys and tokens, and gives nothing out', async () => {
  const site = await siteOf('producer')
  const headers = await tokenWith('produce', 'consume', 'admin')
  const push = { body: { id: 'a' }, headers: { ...headers, 'idempotency-key': 'a' } }
  for (let count = 0; count < 2; count += 1)
    expect((await site.ask('/v1/queues/orders/jobs', push)).json).toEqual({ stored: 1 })
  for (const path of ['/v1/queues/orders/jobs', '/v1/stats']) {
    const { status, json, text } = await site.ask(path, { headers })
    expect([status, json.code]).toEqual([500, 'LOCKSTEP_PERMISSION'])
    expect(json.detail).toContain('the database role that the server logs in as may not do that')
    expect(text).not.toContain('permission denied')
  }
})

test('that of a worker claims and settles', async () => {
  const site = await siteOf('both')
  const headers = await tokenWith('produce', 'consume')
  await site.ask('/v1/queues/mails/jobs', { body: { id: 'a' }, headers })
  const { jobs } = (await site.ask('/v1/claim', { body: { queues: 'mails', wait: 10 }, headers })).json
  const { queue, id, fence } = jobs[0]
  expect((await site.ask('/v1/extend', { body: { queue, id, fence }, headers })).json).toEqual({ held: true })
  expect((await site.ask('/v1/complete', { body: { queue, id, fence }, headers })).json).toEqual({
    held: true,
  })
})

test('that of a viewer looks', async () => {
  const site = await siteOf('viewer')
  const headers = await tokenWith('admin')
  await env.lockstep('producer').enqueue(defineQueue('seen'), { id: 'a' })
  expect((await site.ask('/v1/queues/seen/jobs', { headers })).json.jobs).toMatchObject([{ id: 'a' }])
  expect(await env.lockstep('viewer').tokens()).toMatchObject([{}, {}, {}])
  await expect(env.lockstep('viewer').createToken({ name: 'x', scopes: ['admin'] })).rejects.toMatchObject({
    code: 'LOCKSTEP_PERMISSION',
  })
})

test('no role but the owner’s reads what tokens and keys are made of', async () => {
  for (const role of ['producer', 'worker', 'viewer', 'gateway', 'stranger'])
    for (const text of [
      'SELECT digest FROM "Work Place".api_tokens',
      'SELECT * FROM "Work Place".idempotency_keys',
    ])
      await expect(env.session(role).query(text)).rejects.toMatchObject({ code: '42501' })
})

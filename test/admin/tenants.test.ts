import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TenantsOptions } from '../../src/admin/tenants.ts'
import { type DeadFilter, type JobFilter, OptionError } from '../../src/index.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

const LATER = Date.parse('2040-01-01T00:00:00Z')

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

/** Two tenants and a job of nobody; the tenants have lanes of their own, as the queue has no rules. */
async function populated(): Promise<TestQueue> {
  const queue = await env.queue({ shards: 3 })
  await queue.push(
    { id: 'a', tenant: 'acme', performIn: LATER },
    { id: 'b', tenant: 'bolt', performIn: LATER },
    { id: 'c', tenant: 'acme', performIn: LATER },
    { id: 'd', performIn: LATER },
  )
  return queue
}

async function idsOf({ queue }: TestQueue, filter: JobFilter): Promise<string[]> {
  return (await env.lockstep.find(queue, filter)).items.map(({ id }) => id).sort()
}

async function deadOf({ queue }: TestQueue, filter: DeadFilter): Promise<string[]> {
  return (await env.lockstep.findDead(queue, filter)).items.map(({ id }) => id).sort()
}

async function setRules({ queueId }: TestQueue, ...rules: object[]): Promise<void> {
  await env.query('SELECT lockstep.set_fairness($1, $2)', [queueId, JSON.stringify({ window: 3_600, rules })])
}

describe('R11 finding by tenant', () => {
  test('what is found says whose it is, and never shows the lane that a tenant has of its own', async () => {
    const queue = await populated()
    expect((await queue.job('a')).lane).toBeLessThan(0)
    const { items } = await env.lockstep.find(queue.queue, { by: 'id' })
    expect(items.map(({ id, tenant, lane }) => [id, tenant, lane])).toEqual([
      ['a', 'acme', 0],
      ['b', 'bolt', 0],
      ['c', 'acme', 0],
      ['d', null, 0],
    ])
  })

  test('a tenant has the jobs that it has in any order, page by page; null stands for none', async () => {
    const queue = await populated()
    for (const by of ['id', 'performIn', 'retryCount'] as const) {
      for (const direction of ['asc', 'desc'] as const) {
        const page = { tenant: 'acme', by, direction, limit: 1 }
        const first = await env.lockstep.find(queue.queue, page)
        const second = await env.lockstep.find(queue.queue, { ...page, after: first.next! })
        const ids = [...first.items, ...second.items].map(({ id }) => id)
        expect([by, direction, ids.toSorted(), second.next]).toEqual([by, direction, ['a', 'c'], undefined])
      }
    }
    expect(await idsOf(queue, { tenant: null })).toEqual(['d'])
    expect(await idsOf(queue, { tenant: 'nobody' })).toEqual([])
    expect(await idsOf(queue, { tenant: 'acme', ids: ['b', 'c'] })).toEqual(['c'])
    expect(await idsOf(queue, { tenant: 'acme', retryCount: { from: 0 } })).toEqual([])
  })

  test('a job in work and its next round are of one tenant', async () => {
    const queue = await env.queue()
    await queue.push({ id: 'busy', tenant: 'acme', lane: 0 })
    await (await queue.claimer()).claim()
    await queue.push({ id: 'busy', payload: 'next', tenant: 'bolt' })
    expect(await idsOf(queue, { tenant: 'acme' })).toEqual(['busy', 'busy'])
    expect(await idsOf(queue, { tenant: 'acme', state: 'working' })).toEqual(['busy'])
    expect(await idsOf(queue, { tenant: 'bolt' })).toEqual([])
  })

  test.each([
    ['', /tenant must be well-formed text, or null for what has none, not ""/],
    [7, /tenant must be well-formed text, or null .*, not 7/],
    ['a\u0000', /tenant must be well-formed text/],
    ['\ud800', /tenant must be well-formed text/],
    [['acme'], /tenant must be well-formed text/],
  ])('%j is refused', async (tenant, message) => {
    const { queue } = await env.queue()
    const filter = { tenant } as never
    for (const find of ['find', 'findDead'] as const) {
      const found = env.lockstep[find](queue, filter)
      await expect(found).rejects.toThrow(OptionError)
      await expect(found).rejects.toThrow(message)
    }
    expect(() => env.lockstep.delete(queue, filter)).toThrow(message)
    expect(() => env.lockstep.delete(queue, { tenant: undefined } as never)).toThrow(/tenant is undefined/)
  })
})

describe('R11 acting by tenant', () => {
  test('touches what waits of that tenant, and leaves what others have', async () => {
    const queue = await populated()
    const { lockstep } = env
    await (await queue.claimer()).claim()
    expect(await lockstep.performNow(queue.queue, { tenant: 'acme' })).toEqual({ done: 2, total: 2 })
    expect(await idsOf(queue, { performIn: { to: new Date() } })).toEqual(['a', 'c'])
    expect(await lockstep.delete(queue.queue, { tenant: null })).toEqual({ done: 1, total: 1 })
    expect(await lockstep.kill(queue.queue, { tenant: 'acme' })).toEqual({ done: 2, total: 2 })
    expect(await idsOf(queue, {})).toEqual(['b'])
  })

  test('in the morgue, too; what is requeued is of the tenant that it was of', async () => {
    const queue = await populated()
    const { lockstep } = env
    await lockstep.kill(queue.queue, {})
    const { items } = await lockstep.findDead(queue.queue, { by: 'id' })
    expect(items.map(({ id, tenant }) => [id, tenant])).toEqual([
      ['a', 'acme'],
      ['b', 'bolt'],
      ['c', 'acme'],
      ['d', null],
    ])
    expect(await deadOf(queue, { tenant: null })).toEqual(['d'])
    expect(await lockstep.requeue(queue.queue, { tenant: 'acme' })).toEqual({ done: 2, total: 2 })
    expect(await idsOf(queue, { tenant: 'acme' })).toEqual(['a', 'c'])
    expect(await lockstep.deleteDead(queue.queue, { tenant: 'bolt' })).toEqual({ done: 1, total: 1 })
    expect(await deadOf(queue, {})).toEqual(['d'])
  })
})

describe('the tenants of a queue', () => {
  test('are those that have jobs in it, the one for whom most waits first; without rules, nobody is throttled', async () => {
    const queue = await populated()
    await queue.push({ id: 'busy', tenant: 'bolt', lane: 0 }, { id: 'due', tenant: 'core', performIn: 0 })
    await (await queue.claimer()).claim({ shard: (await queue.job('busy')).shard })
    await queue.push({ id: 'busy', payload: 'next', tenant: 'bolt', performIn: LATER })
    const { items, ...rest } = await env.lockstep.tenants(queue.queue)
    expect(rest).toEqual({ total: 3, rules: [], next: undefined })
    const shown = { lag: 0, pushes: [], lane: 0, throttled: false }
    expect(items).toEqual([
      { tenant: 'acme', waiting: 2, working: 0, ...shown },
      { tenant: 'bolt', waiting: 2, working: 1, ...shown },
      { tenant: 'core', waiting: 1, working: 0, ...shown, lag: expect.any(Number) },
    ])
    expect(items[2]!.lag).toBeGreaterThan(Date.now() - 60_000)
  })

  test('with rules, are also those that pushed within the window; the lane is where their next job goes', async () => {
    const queue = await env.queue()
    const rules = [
      { over: 2, per: 3_600, lane: 1 },
      { over: 3, per: 60, lane: 5 },
    ]
    await setRules(queue, ...rules)
    const pushed: string[] = []
    const push = async (tenant: string) => {
      const before = await stateOf(tenant)
      const id = `${tenant} ${pushed.push(tenant)}`
      await queue.push({ id, tenant })
      expect((await queue.job(id)).lane).toBe(before?.lane ?? 0)
      return stateOf(tenant)
    }
    const stateOf = async (tenant: string) => {
      const list = await env.lockstep.tenants(queue.queue)
      expect(list.rules).toEqual(rules)
      return list.items.find((one) => one.tenant === tenant)
    }
    expect(await push('acme')).toMatchObject({ pushes: [1, 1], lane: 0, throttled: false })
    expect(await push('acme')).toMatchObject({ pushes: [2, 2], lane: 1, throttled: true })
    expect(await push('acme')).toMatchObject({ pushes: [3, 3], lane: 5, throttled: true })
    expect(await push('bolt')).toMatchObject({ waiting: 1, pushes: [1, 1], lane: 0, throttled: false })
    await env.lockstep.delete(queue.queue, {})
    expect(await stateOf('acme')).toMatchObject({ waiting: 0, working: 0, pushes: [3, 3], throttled: true })
    const earlier = (by: string) =>
      env.query(
        'UPDATE lockstep.tenant_pushes SET pushed_at = pushed_at - $2::interval WHERE queue_id = $1',
        [queue.queueId, by],
      )
    await earlier('2 min')
    expect(await stateOf('acme')).toMatchObject({ pushes: [3, 0], lane: 1, throttled: true })
    await earlier('1 h')
    expect(await stateOf('acme')).toBeUndefined()
  })

  test('come in pages, with their number', async () => {
    const queue = await env.queue()
    const names = ['é', 'Z', 'a', '𝄞', ' ']
    await queue.push(...names.map((tenant, n) => ({ id: `${n}`, tenant })), { id: 'more', tenant: 'a' })
    const order = ['a', ' ', 'Z', 'é', '𝄞']
    for (const limit of [1, 2, 4, 5]) {
      const all: string[] = []
      let after: string | undefined
      do {
        const list = await env.lockstep.tenants(queue.queue, { limit, ...(after !== undefined && { after }) })
        expect(list.total).toBe(names.length)
        all.push(...list.items.map(({ tenant }) => tenant))
        after = list.next
      } while (after !== undefined)
      expect(all).toEqual(order)
    }
  })

  test('are none in an empty queue, and are seen in a transaction of the application', async () => {
    const queue = await env.queue()
    const none = { total: 0, rules: [], items: [], next: undefined }
    expect(await env.lockstep.tenants(queue.queue)).toEqual(none)
    const tx = await env.transaction()
    await queue.pushIn(tx, { id: 'a', tenant: 'acme' })
    expect((await env.lockstep.tenants(queue.queue, { tx })).total).toBe(1)
    expect(await env.lockstep.tenants(queue.queue.name)).toEqual(none)
    await tx.query('ROLLBACK')
  })

  test.each([
    [{ limit: 0 }, /limit must be a whole number from 1 to 1000/],
    [{ after: 'x' }, /after must be the `next` of an earlier page/],
    [{ after: 7 }, /after must be the `next` of an earlier page, not 7/],
    [{ by: 'lag' }, /unknown option `by`/],
  ])('%j is refused', async (options, message) => {
    const listing = env.lockstep.tenants((await env.queue()).queue, options as TenantsOptions)
    await expect(listing).rejects.toThrow(OptionError)
    await expect(listing).rejects.toThrow(message)
  })
})

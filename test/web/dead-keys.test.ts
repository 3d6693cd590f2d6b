import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { lockstepWeb } from '../../src/web/index.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'
import { linesOf, type Site, serve } from './site.ts'

let env: StoreEnvironment
let queue: TestQueue
let site: Site

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env.close())
beforeEach(async () => {
  queue = await env.queue()
  site = await open()
})

/** Another instance of the page, as another process has it. */
function open(): Promise<Site> {
  return serve(lockstepWeb(env.lockstep, { access: 'open', redact: () => 'hidden' }).node)
}

function dead(rest = ''): string {
  return `/api/v1/queues/${encodeURIComponent(queue.queue.name)}/dead${rest}`
}

async function die(...jobs: { id: string; payload: unknown; score?: number }[]): Promise<void> {
  await queue.push(...jobs)
  await env.lockstep.kill(queue.queue, {})
}

async function digests(): Promise<string[]> {
  const { items } = await env.lockstep.findDead(queue.queue, {})
  return items.map(({ digest }) => digest)
}

/** What a visitor can read, also of what is encoded. */
function legible(text: string): string {
  const encoded = [...text.matchAll(/[\w-]{40,}/g)].map(([one]) => Buffer.from(one, 'base64url').toString())
  return [text, ...encoded].join()
}

describe('the digest of a dead payload, from which it can be guessed,', () => {
  it('is in no answer of the API, no page and no cursor', async () => {
    await die({ id: 'a', payload: 1 }, { id: 'b', payload: 2 })
    await env.lockstep.requeue(queue.queue, { digests: (await digests()).slice(0, 1) }, { by: 'anna' })
    await env.lockstep.kill(queue.queue, {})
    const page = `/queues/${encodeURIComponent(queue.queue.name)}`
    const paths = [dead(), dead('?limit=1'), `${page}/dead?sort=id`, `${page}/job/a`, '/audit']
    for (const path of paths) {
      const { status, text } = await site.ask(path)
      expect(status).toBe(200)
      for (const digest of await digests()) expect(legible(text)).not.toContain(digest)
    }
  })

  it('can’t be asked for: neither by a filter nor by a cursor', async () => {
    await die({ id: 'a', payload: 1 })
    const [digest] = await digests()
    const cursor = Buffer.from(JSON.stringify(['id', 'a', digest])).toString('base64url')
    for (const query of [`?digests=${digest}`, `/count?digests=${digest}`, `?by=id&after=${cursor}`])
      expect((await site.ask(dead(query))).status).toBe(400)
    expect((await site.act(dead('/requeue'), { filter: { digests: [digest] } })).status).toBe(400)
  })
})

describe('the key of a dead payload', () => {
  it('names it alone, also for another instance of the page, and among several ids', async () => {
    const both = [1, 2].map((payload) => ({ payload, score: payload }))
    await die(...both.map((one) => ({ id: 'a', ...one })), ...both.map((one) => ({ id: 'b', ...one })))
    const { items } = (await site.ask(dead('?by=score'))).json
    const keyOf = (id: string, score: number) =>
      items.find((item: { id: string; score: number }) => item.id === id && item.score === score).key
    const other = await open()
    const filter = { ids: ['a', 'b'], keys: [keyOf('a', 1), keyOf('b', 2)] }
    expect(linesOf(await other.act(dead('/delete'), { filter })).at(-1)).toEqual({
      result: { done: 2, total: 2 },
    })
    const left = (await env.lockstep.findDead(queue.queue, {})).items
    expect(left.map(({ id, payload }) => [id, payload]).sort()).toEqual([
      ['a', 2],
      ['b', 1],
    ])
  })

  it('names nothing once the payload has gone, even if it dies again', async () => {
    await die({ id: 'a', payload: 1 })
    const [{ key }] = (await site.ask(dead())).json.items
    await env.lockstep.requeue(queue.queue, {})
    await env.lockstep.kill(queue.queue, {})
    const lines = linesOf(await site.act(dead('/delete'), { filter: { ids: ['a'], keys: [key] } }))
    expect(lines.at(-1)).toEqual({ result: { done: 0, total: 0 } })
    expect(await digests()).toHaveLength(1)
  })

  it.each(['asc', 'desc'])(
    'leads from page to page, %s, and leaves none out if one has gone',
    async (direction) => {
      await die(...[1, 2, 3].map((payload) => ({ id: 'a', payload, score: payload })))
      const page = async (after = '') =>
        (await site.ask(dead(`?by=id&direction=${direction}&limit=1${after}`))).json
      const [first, all] = [await page(), (await site.ask(dead(`?by=id&direction=${direction}`))).json.items]
      const second = await page(`&after=${first.next}`)
      expect([...first.items, ...second.items]).toEqual(all.slice(0, 2))
      await site.act(dead('/delete'), { filter: { ids: ['a'], keys: [first.items[0].key] } })
      expect((await page(`&after=${first.next}`)).items).toEqual(second.items)
    },
  )

  it('names it after VACUUM FULL, too', async () => {
    await die(...Array.from({ length: 20 }, (_, n) => ({ id: `${n}`, payload: n })))
    await env.lockstep.deleteDead(queue.queue, { ids: ['0', '3'] })
    const [, , one] = (await site.ask(dead('?by=id'))).json.items
    await env.query('VACUUM FULL lockstep.morgue')
    await site.act(dead('/delete'), { filter: { ids: [one.id], keys: [one.key] } })
    const { items } = await env.lockstep.findDead(queue.queue, { ids: [one.id] })
    expect(items).toEqual([])
    expect(await digests()).toHaveLength(17)
  })

  it.each(['id', 'score'])('decides the order of what is alike, sorted by %s', async (by) => {
    await die(...Array.from({ length: 12 }, (_, payload) => ({ id: 'a', payload, score: 1 })))
    const keys = (await site.ask(dead(`?by=${by}`))).json.items.map(({ key }: { key: string }) => key)
    expect(keys).toEqual(keys.toSorted())
    expect(keys).toHaveLength(12)
    const pages: string[] = []
    for (let next = ''; next !== undefined; ) {
      const page = (await site.ask(dead(`?by=${by}&limit=5${next && `&after=${next}`}`))).json
      pages.push(...page.items.map(({ key }: { key: string }) => key))
      next = page.next ?? undefined
    }
    expect(pages).toEqual(keys)
  })

  it('needs the id of its job', async () => {
    const answer = await site.act(dead('/delete'), { filter: { keys: ['0'.repeat(32)] } })
    expect([answer.status, answer.json.detail]).toEqual([400, expect.stringContaining('ids')])
  })
})

import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { lockstepWeb } from '../../src/web/index.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'
import { type Site, serve } from './site.ts'

let env: StoreEnvironment
let queue: TestQueue
let site: Site

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env.close())
beforeEach(async () => {
  queue = await env.queue()
  site = await serve(lockstepWeb(env.lockstep, { access: 'open' }).node)
  await queue.push({ id: 'a', payload: 1 })
})

const list = (name: string, search: string) =>
  site.ask(`/queues/${encodeURIComponent(queue.queue.name)}/${name}?${search}`)

/** What the actions of a list are done to if all that match are selected. */
function matchingOf(page: string): unknown {
  const [, text] = /data-matching="([^"]*)"/.exec(page)!
  return JSON.parse(text!.replaceAll('&quot;', '"'))
}

it.each([
  ['jobs/waiting', 'from=junk', /from must be a time/],
  ['jobs/waiting', 'to=2026-13-45T00:00', /to must be a time/],
  ['jobs/waiting', 'failures=junk', /failures must be a whole number/],
  ['jobs/waiting', 'failures=-1', /failures must be a whole number/],
  ['jobs/waiting', 'failures=1.5', /failures must be a whole number/],
  ['jobs/waiting', 'failures=1e99', /failures must be a whole number/],
  ['jobs/waiting', 'sort=evil', /sort must be performIn or id or retryCount/],
  ['jobs/waiting', 'direction=up', /direction must be asc or desc/],
  ['jobs/retrying', 'performIn.from=2026-01-01', /unknown option `performIn.from`/],
  ['dead', 'failures=3', /unknown option `failures`/],
  ['dead', 'died=2026-01-01', /unknown option `died`/],
])(
  'a list of %s has no page for the filter %s, whose actions would be done to all',
  async (name, search, why) => {
    const { status, text } = await list(name, search)
    expect(status).toBe(400)
    expect(text).toMatch(why)
  },
)

it('fields that are left empty filter nothing, and the others say what actions are done to', async () => {
  const empty = await list('jobs/waiting', 'id=&tenant=&from=&to=&failures=')
  expect(matchingOf(empty.text)).toEqual({ all: true })
  const filtered = await list('jobs/waiting', 'id=a*&from=2026-01-01T12%3A00&sort=id&direction=desc')
  expect(matchingOf(filtered.text)).toEqual({
    filter: {
      id: { from: 'a', to: 'a\u{10ffff}' },
      performIn: { from: '2026-01-01T12:00:00.000Z' },
    },
  })
})

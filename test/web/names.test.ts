import { afterAll, beforeAll, expect, it } from 'vitest'
import { nameIn, segmentOf } from '../../src/serving/names.ts'
import { lockstepWeb } from '../../src/web/index.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'
import { serve } from './site.ts'

let env: StoreEnvironment
beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env.close())

it.each(['.', '..', '~.', '~..', '~~.', '...', '~', 'a.', 'a/../b', '%2e', 'é', ' '])(
  'a queue or id named %j has a page and an API, also through browsers, which shorten paths',
  async (name) => {
    const site = await serve(lockstepWeb(env.lockstep, { access: 'open' }).node)
    await env.query('SELECT lockstep.create_queue($1, 2)', [name])
    await env.query('SELECT lockstep.enqueue($1, $2::text, $3::jsonb)', [name, name, '1'])
    /** As a browser sends it. */
    const shortened = (path: string) => new URL(path, site.origin).pathname
    const queue = `/queues/${segmentOf(name)}`
    const [, linked] = /href="(\/queues\/[^"/]+)"/.exec((await site.ask('/')).text)!
    expect(linked).toBe(queue)
    const list = (await site.ask(shortened(`${linked}/jobs/waiting`))).text
    const [, job] = /<th scope="row" class="id"><a href="([^"]+)"/.exec(list)!
    const page = await site.ask(shortened(job!))
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('Waiting')])
    const { json } = await site.ask(shortened(`/api/v1${queue}`))
    expect(json.stats).toMatchObject({ queue: name, waiting: 1 })
    await site.act(shortened(`/api/v1${queue}/delete`), { withJobs: true })
    expect((await site.ask(shortened(`/api/v1${queue}`))).status).toBe(404)
  },
)

it('no two names have one address, and others than these keep theirs', () => {
  const names = ['.', '..', '~.', '~..', '~~.', '~~..', '...', '~...', '~', '~~', 'a~.', '~a', '.a']
  expect(names.map((name) => nameIn(decodeURIComponent(segmentOf(name))))).toEqual(names)
  expect(names.filter((name) => segmentOf(name) === name)).toEqual([
    '...',
    '~...',
    '~',
    '~~',
    'a~.',
    '~a',
    '.a',
  ])
})

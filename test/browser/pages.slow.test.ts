import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Lockstep, Queue } from '../../src/index.ts'
import { createMigrated, type TestDatabase } from '../support/database.ts'
import { builtModules, LOOKS, useBrowser, type Visitor } from './browser.ts'

const browser = useBrowser()
/** It has what HTML and addresses could trip over. */
const NAME = 'orders & <b>"more"</b>/%41'
const ID = `order "1" <i>/?#&%2F`

let built: Awaited<ReturnType<typeof builtModules>>
let database: TestDatabase
let lockstep: Lockstep
let site: Site
let url: string

beforeAll(async () => {
  built = await builtModules()
  database = await createMigrated()
  lockstep = new built.Lockstep({ connectionString: database.connectionString })
  site = await serve(built.lockstepWeb(lockstep, { access: 'open', path: '/admin/jobs' }).node)
  url = `${site.origin}/admin/jobs`
}, 60_000)
afterAll(async () => {
  site?.close()
  await lockstep?.close()
  await database?.drop()
})

interface Site {
  readonly origin: string
  close(): void
}

async function serve(listener: RequestListener): Promise<Site> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close }
}

const pathOf = (queue: string, rest = '') => `/queues/${encodeURIComponent(queue)}${rest}`
const jobPathOf = (queue: string, id: string) => pathOf(queue, `/job/${encodeURIComponent(id)}`)

async function sql(text: string, values: unknown[]): Promise<void> {
  const client = new pg.Client(database.connectionString)
  await client.connect()
  await client.query(text, values)
  await client.end()
}

let queues = 0
function queueName(): string {
  queues += 1
  return `queue ${queues}`
}

/** Ids that wait, in order. */
async function waiting(queue: string): Promise<string[]> {
  return (await lockstep.find(queue, { by: 'id', state: 'waiting' })).items.map(({ id }) => id)
}

async function inMorgue(queue: Queue): Promise<string[]> {
  return (await lockstep.findDead(queue, { by: 'id' })).items.map(({ id }) => id)
}

describe('every page can be used by everyone, wide and narrow, light and dark', () => {
  async function checkAll(pages: Readonly<Record<string, string>>, kind: string): Promise<void> {
    for (const look of LOOKS) {
      const visitor = await browser.open(url, look)
      for (const [name, path] of Object.entries(pages)) {
        await visitor.go(path)
        await visitor.shoot(`${name}-${kind}`, look)
        expect({ name, look, obstacles: await visitor.obstacles() }).toEqual({ name, look, obstacles: [] })
      }
      visitor.requireSound()
    }
  }

  test('without any queue', async () => {
    const empty = await createMigrated()
    const none = new built.Lockstep({ connectionString: empty.connectionString })
    const other = await serve(built.lockstepWeb(none, { access: 'open' }).node)
    try {
      const look = LOOKS[0]!
      const visitor = await browser.open(other.origin, look)
      for (const [name, path] of Object.entries({
        overview: '/',
        processes: '/processes',
        audit: '/audit',
      })) {
        await visitor.go(path)
        await visitor.shoot(`${name}-without-queues`, look)
        expect([name, await visitor.obstacles()]).toEqual([name, []])
      }
    } finally {
      other.close()
      await none.close()
      await empty.drop()
    }
  })

  test('with much in it, and names that need care', { timeout: 180_000 }, async () => {
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    const queue = built.defineQueue<unknown>(NAME, {
      shards: 24,
      batchSize: 3,
      async perform(batch, context) {
        for (const id of batch.keys())
          if (/[37]$/.test(id)) context.fail(id, new Error(`<script>alert("${id}")</script>`))
        if (batch.has(ID)) await held
      },
    })
    const worker = lockstep.createWorker({ queues: [queue], slots: 4 })
    await worker.start()
    try {
      await lockstep.enqueue(queue, { id: ID, payload: { big: 1, html: '<script>alert(1)</script>' } })
      await expect
        .poll(async () => (await lockstep.find(queue, { state: 'working' })).items.length)
        .toBeGreaterThan(0)
      const later = Array.from({ length: 12 }, (_, n) => ({ id: ID, payload: { n }, score: n }))
      await lockstep.enqueue(queue, later)
      const many = Array.from({ length: 400 }, (_, n) => ({ id: `order-${n}`, payload: { n } }))
      await lockstep.enqueue(queue, many)
      await lockstep.enqueue(
        queue,
        many.map(({ id }, n) => ({
          id: `later ${id}`,
          payload: { id },
          performIn: new Date('2040-01-01'),
          tenant: n % 3 === 0 ? null : n % 7 === 0 ? 'customer/'.repeat(30) : `<b>tenant</b> ${n % 12}`,
        })),
      )
      await lockstep.kill(queue, { id: { from: 'later order-3', to: 'later order-39' } })
      await expect.poll(async () => (await lockstep.stats()).total.retrying).toBeGreaterThan(50)
      const pages = {
        overview: '/',
        queue: pathOf(NAME),
        'queue-day': pathOf(NAME, '?span=day'),
        waiting: pathOf(NAME, '/jobs/waiting'),
        retrying: pathOf(NAME, '/jobs/retrying'),
        working: pathOf(NAME, '/jobs/working'),
        filtered: pathOf(NAME, '/jobs/waiting?id=later*&from=2039-12-31T23:59&sort=id&direction=desc'),
        dead: pathOf(NAME, '/dead'),
        'of-tenant': pathOf(NAME, '/jobs/waiting?tenant=%3Cb%3Etenant%3C%2Fb%3E+4'),
        job: jobPathOf(NAME, ID),
        'job-of-tenant': jobPathOf(NAME, 'later order-49'),
        'failed-job': jobPathOf(NAME, 'order-7'),
        'dead-job': jobPathOf(NAME, 'later order-31'),
        processes: '/processes',
        audit: '/audit',
      }
      await checkAll(pages, 'much')
    } finally {
      release()
      await worker.stop()
    }
  })

  test('with nothing in its queue', { timeout: 60_000 }, async () => {
    const queue = built.defineQueue<unknown>(queueName())
    await lockstep.enqueue(queue, { id: 'a' })
    await lockstep.delete(queue, {})
    const pages = {
      queue: pathOf(queue.name),
      waiting: pathOf(queue.name, '/jobs/waiting'),
      working: pathOf(queue.name, '/jobs/working'),
      dead: pathOf(queue.name, '/dead'),
      job: jobPathOf(queue.name, 'none'),
      filtered: pathOf(queue.name, '/jobs/waiting?id=x*'),
    }
    await checkAll(pages, 'nothing')
  })
})

describe('people look', () => {
  test('from the overview to a payload, whose numbers have all their digits', async () => {
    const queue = queueName()
    await lockstep.enqueue(built.defineQueue<unknown>(queue), { id: 'another' })
    const payload = '{"n": 12345678901234567890.125}'
    await sql('SELECT lockstep.enqueue($1, $2, $3::jsonb)', [queue, ID, payload])
    const visitor = await browser.open(url)
    const { page } = visitor
    await page.getByRole('row').getByRole('link', { name: queue, exact: true }).click()
    await page.getByRole('link', { name: /^Waiting/ }).click()
    await page.getByRole('link', { name: ID }).click()
    expect(await page.locator('pre').first().innerText()).toContain('"n": 12345678901234567890.125')
    visitor.requireSound()
  })

  test('what changes shows without loading the page again', async () => {
    const queue = built.defineQueue<unknown>(queueName())
    await lockstep.enqueue(queue, { id: 'first', performIn: new Date('2040-01-01') })
    const visitor = await browser.open(url)
    await visitor.go(pathOf(queue.name, '/jobs/waiting'))
    await visitor.page.getByRole('link', { name: 'first' }).waitFor()
    await lockstep.enqueue(queue, { id: 'second', performIn: new Date('2040-01-02') })
    await visitor.page.getByRole('link', { name: 'second' }).waitFor()
    visitor.requireSound()
  })

  test('from the tenants of a queue to the jobs of one, and to one of those', async () => {
    const queue = built.defineQueue<unknown>(queueName())
    const performIn = new Date('2040-01-01')
    const tenants = ['acme & co', ' bolt', 'acme & co', null]
    await lockstep.enqueue(
      queue,
      tenants.map((tenant, n) => ({ id: `job ${n}`, tenant, performIn })),
    )
    const visitor = await browser.open(url)
    const { page } = visitor
    await visitor.go(pathOf(queue.name))
    await page.getByRole('link', { name: 'acme & co' }).click()
    await page.getByLabel('tenant').waitFor()
    expect(await page.getByLabel('tenant').inputValue()).toBe('acme & co')
    expect(await page.locator('tbody th').allInnerTexts()).toEqual(['job 0', 'job 2'])
    await page.getByRole('link', { name: 'job 2' }).click()
    await page.getByRole('link', { name: 'acme & co' }).waitFor()
    await visitor.go(pathOf(queue.name))
    await page.getByRole('link', { name: 'bolt' }).click()
    await page.getByLabel('tenant').waitFor()
    expect(await page.locator('tbody th').allInnerTexts()).toEqual(['job 1'])
  })

  test('through pages of many, and back, with the filter in the address', async () => {
    const queue = built.defineQueue<unknown>(queueName())
    const far = new Date('2040-01-01')
    await lockstep.enqueue(
      queue,
      Array.from({ length: 120 }, (_, n) => ({ id: `job ${String(n).padStart(3, '0')}`, performIn: far })),
    )
    const visitor = await browser.open(url)
    const { page } = visitor
    await visitor.go(pathOf(queue.name, '/jobs/waiting'))
    await page.getByLabel('id, or the start of it with *').fill('job 0*')
    await page.getByRole('button', { name: 'Filter' }).click()
    const seen = new Set<string>()
    for (;;) {
      for (const text of await page.locator('tbody th').allInnerTexts()) seen.add(text)
      const next = page.getByRole('link', { name: 'Next page' })
      if ((await next.count()) === 0) break
      await next.click()
      await page.getByRole('link', { name: 'First page' }).waitFor()
      expect(new URL(page.url()).searchParams.get('id')).toBe('job 0*')
    }
    expect(seen.size).toBe(100)
  })
})

describe('people act, and the database shows it', () => {
  let queue: Queue
  const far = new Date('2040-01-01')

  async function list(ids: readonly string[], rest = '/jobs/waiting'): Promise<Visitor> {
    queue = built.defineQueue<unknown>(queueName())
    await lockstep.enqueue(
      queue,
      ids.map((id) => ({ id, payload: { id }, performIn: far })),
    )
    const visitor = await browser.open(url)
    await visitor.go(pathOf(queue.name, rest))
    return visitor
  }

  test('perform one now, at once', async () => {
    const { page } = await list(['a', 'b'])
    await page.getByLabel('select a', { exact: true }).check()
    await page.getByRole('button', { name: 'Perform now' }).click()
    await expect
      .poll(async () =>
        (await lockstep.find(queue, { performIn: { to: new Date() } })).items.map(({ id }) => id),
      )
      .toEqual(['a'])
  })

  test('kill some: it asks with their number, and Cancel does nothing', async () => {
    const { page } = await list(['a', 'b', 'c'])
    await page.getByLabel('select a', { exact: true }).check()
    await page.getByLabel('select c', { exact: true }).check()
    await page.getByRole('button', { name: 'Kill', exact: true }).click()
    await page.getByRole('heading', { name: 'Kill 2 jobs?' }).waitFor()
    await page.getByRole('button', { name: 'Cancel' }).click()
    expect(await waiting(queue.name)).toEqual(['a', 'b', 'c'])
    await page.getByRole('button', { name: 'Kill', exact: true }).click()
    await page.getByRole('button', { name: 'Kill 2 jobs' }).click()
    await page.getByText('Done: 2 jobs.').waitFor()
    expect(await waiting(queue.name)).toEqual(['b'])
    expect(await inMorgue(queue)).toEqual(['a', 'c'])
    expect(await lockstep.audit({ limit: 1 })).toMatchObject([
      { action: 'kill', queue: queue.name, affected: 2, error: null },
    ])
  })

  test('delete all that match a filter, and no others, by the keyboard alone', async () => {
    const visitor = await list(['a1', 'a2', 'a3', 'b1'])
    await visitor.go(pathOf(queue.name, '/jobs/waiting?id=a*'))
    const { page } = visitor
    await page.getByLabel('select all that match').focus()
    await page.keyboard.press('Space')
    await page.getByRole('button', { name: 'Delete' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Delete 3 jobs?' }).waitFor()
    // Enter alone must not destroy anything.
    expect(await page.locator('button:focus').innerText()).toBe('Cancel')
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.press('Enter')
    await page.getByText('Done: 3 jobs.').waitFor()
    expect(await waiting(queue.name)).toEqual(['b1'])
  })

  test('delete all of a tenant', async () => {
    const queue = built.defineQueue<unknown>(queueName())
    await lockstep.enqueue(
      queue,
      ['acme', 'bolt', 'acme'].map((tenant, n) => ({ id: `job ${n}`, tenant, performIn: far })),
    )
    const visitor = await browser.open(url)
    await visitor.go(pathOf(queue.name, '/jobs/waiting?tenant=acme'))
    await visitor.page.getByLabel('select all that match').check()
    await visitor.page.getByRole('button', { name: 'Delete' }).click()
    await visitor.page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await expect.poll(() => waiting(queue.name)).toEqual(['job 1'])
  })

  test('requeue and delete the dead, also if equal payloads lie under several ids', async () => {
    const dead = built.defineQueue<unknown>(queueName())
    for (const payload of ['same', 'other'])
      await lockstep.enqueue(dead, [
        { id: 'a', payload, performIn: far },
        { id: 'b', payload, performIn: far },
      ])
    await lockstep.kill(dead, {})
    const visitor = await browser.open(url)
    await visitor.go(pathOf(dead.name, '/dead?sort=id'))
    const { page } = visitor
    await page.getByLabel('select a', { exact: true }).first().check()
    await page.getByLabel('select b', { exact: true }).last().check()
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByRole('button', { name: 'Delete 2 dead payloads' }).click()
    await page.getByText('Done: 2 dead payloads.').waitFor()
    expect(await inMorgue(dead)).toEqual(['a', 'b'])
    await visitor.go(jobPathOf(dead.name, 'a'))
    await page.getByRole('button', { name: 'Requeue' }).click()
    await expect.poll(() => inMorgue(dead)).toEqual(['b'])
    expect(await waiting(dead.name)).toEqual(['a'])
  })

  test('pause and resume a queue, from its page and from what needs somebody', async () => {
    const visitor = await list(['a'], '')
    const { page } = visitor
    const paused = async () =>
      (await lockstep.stats()).queues.find(({ queue: name }) => name === queue.name)!.pausedAt !== null
    await page.getByRole('button', { name: 'Pause' }).click()
    await expect.poll(paused).toBe(true)
    await visitor.go('')
    const finding = page.getByRole('listitem').filter({ hasText: `${queue.name} is paused` })
    await finding.getByRole('button', { name: 'Resume' }).click()
    await expect.poll(paused).toBe(false)
    visitor.requireSound()
  })

  test('reshard a queue', async () => {
    const { page } = await list(['a'], '')
    await page.getByLabel('shards', { exact: true }).fill('7')
    await page.getByRole('button', { name: 'Reshard' }).click()
    await page.getByRole('heading', { name: `Reshard ${queue.name}?` }).waitFor()
    await page.locator('dialog').getByRole('button', { name: 'Reshard' }).click()
    await page.getByText('Done.').waitFor()
    const found = (await lockstep.stats()).queues.find(({ queue: name }) => name === queue.name)
    expect(found).toMatchObject({ shards: 7 })
  })

  test('quiet a process, and stop it', async () => {
    const served = built.defineQueue<unknown>(queueName(), { perform() {} })
    const worker = lockstep.createWorker({ queues: [served], slots: 1 })
    await worker.start()
    const visitor = await browser.open(url)
    await visitor.go('/processes')
    const { page } = visitor
    await page.getByRole('button', { name: 'Quiet' }).click()
    await expect.poll(async () => (await lockstep.processes())[0]).toMatchObject({ quiet: true })
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.locator('dialog').getByRole('button', { name: 'Stop' }).click()
    await expect.poll(() => lockstep.processes()).toEqual([])
    expect(await lockstep.audit({ limit: 2 })).toMatchObject([{ action: 'stop' }, { action: 'quiet' }])
    await worker.stop()
  })

  test('an action that fails says why', async () => {
    const { page } = await list(['a'])
    await page.getByLabel('select a', { exact: true }).check()
    await lockstep.deleteQueue(queue, { withJobs: true })
    await page.getByRole('button', { name: 'Perform now' }).click()
    await page.getByRole('status').filter({ hasText: queue.name }).waitFor()
  })
})

test('a first visit loads less than 150 kB, and nothing from elsewhere', async () => {
  const queue = built.defineQueue<unknown>(queueName())
  const many = Array.from({ length: 50 }, (_, n) => ({ id: `${n}`, performIn: new Date('2040-01-01') }))
  await lockstep.enqueue(queue, many)
  const visitor = await browser.open(url)
  const loaded = new Map<string, number>()
  visitor.page.on('response', async (response) => {
    loaded.set(response.url(), (await response.body().catch(() => Buffer.alloc(0))).length)
  })
  await visitor.go(pathOf(queue.name, '/jobs/waiting'))
  await visitor.page.waitForLoadState('networkidle').catch(() => {})
  expect([...loaded.keys()].filter((one) => !one.startsWith(url))).toEqual([])
  expect(loaded.size).toBeGreaterThan(5)
  expect([...loaded.values()].reduce((sum, size) => sum + size, 0)).toBeLessThan(150_000)
})

test('who may only look is offered nothing else', async () => {
  const other = await serve(built.lockstepWeb(lockstep, { access: 'open', readOnly: true }).node)
  try {
    const queue = built.defineQueue<unknown>(queueName())
    await lockstep.enqueue(queue, { id: 'a', performIn: new Date('2040-01-01') })
    const visitor = await browser.open(other.origin)
    for (const path of [
      '/',
      pathOf(queue.name),
      pathOf(queue.name, '/jobs/waiting'),
      jobPathOf(queue.name, 'a'),
      '/processes',
    ]) {
      await visitor.go(path)
      expect([path, await visitor.page.getByRole('button').allInnerTexts()]).toEqual([
        path,
        path.endsWith('waiting') ? ['Filter'] : [],
      ])
    }
  } finally {
    other.close()
  }
})

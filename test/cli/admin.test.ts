import { userInfo } from 'node:os'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { Rates } from '../../src/admin/rates.ts'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { drain } from '../../src/testing/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { runHere } from './in-process.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let database: TestDatabase
let env: NodeJS.ProcessEnv
let library: Lockstep
let client: pg.Client

beforeAll(async () => {
  database = await createDatabase()
  env = { DATABASE_URL: database.connectionString }
  library = new Lockstep({ connectionString: database.connectionString })
  await library.migrate()
  client = new pg.Client(database.connectionString)
  await client.connect()
})
afterAll(async () => {
  await client.end()
  await library.close()
  await database.drop()
})

async function push(queue: string, ids: readonly string[]): Promise<void> {
  await library.enqueue(
    defineQueue(queue),
    ids.map((id) => ({ id, payload: { of: id }, score: 1 })),
  )
}

/** Runs a command with --json, which must succeed. */
async function json(...args: string[]): Promise<unknown> {
  const { code, stdout, stderr } = await runHere([...args, '--json'], env)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout)
}

describe('a person’s commands', () => {
  it('jobs: find, perform now, kill, delete; morgue: list, requeue, delete', async () => {
    await push('orders', ['a', 'b', 'c', 'd'])
    await client.query("UPDATE lockstep.jobs SET perform_in = '2999-01-01', retry_count = 2 WHERE id = 'd'")
    expect(
      await json('jobs', 'find', 'orders', '--id-from', 'b', '--id-to', 'c', '--by', 'id', '--desc'),
    ).toMatchObject({
      items: [{ id: 'c', payloads: [{ payload: { of: 'c' } }] }, { id: 'b' }],
    })
    const page = (await json('jobs', 'find', 'orders', '--by', 'id', '--limit', '3')) as { next: string }
    expect(await json('jobs', 'find', 'orders', '--by', 'id', '--after', page.next)).toMatchObject({
      items: [{ id: 'd' }],
    })
    expect(await json('jobs', 'perform-now', 'orders', '--perform-in-from', '2500-01-01')).toEqual({
      done: 1,
      total: 1,
    })
    expect(await json('jobs', 'find', 'orders', '--retry-from', '0', '--perform-in-to', 'now')).toMatchObject(
      { items: [{ id: 'd' }] },
    )

    expect(await json('jobs', 'kill', 'orders', '--id', 'a', '--id', 'b')).toEqual({ done: 2, total: 2 })
    expect(await json('morgue', 'list', 'orders', '--by', 'id')).toMatchObject({
      items: [{ id: 'a' }, { id: 'b' }],
    })
    expect(await json('morgue', 'requeue', 'orders', '--id', 'a')).toEqual({ done: 1, total: 1 })
    expect(await json('morgue', 'delete', 'orders', '--all')).toEqual({ done: 1, total: 1 })
    expect(await json('jobs', 'delete', 'orders', '--retry-to', '-1')).toEqual({ done: 2, total: 2 })
    expect(await json('stats')).toMatchObject({
      queues: [{ queue: 'orders', waiting: 1, dead: 0, retrying: 1 }],
    })
  })

  it('by tenant: jobs, morgue, and what each tenant has in the queue', async () => {
    const shared = defineQueue('shared')
    const performIn = new Date('2999-01-01')
    const job = (id: string, tenant?: string) => ({ id, performIn, ...(tenant && { tenant }) })
    await library.enqueue(shared, [job('a', 'acme'), job('b', 'b\u202eolt'), job('c', 'acme'), job('d')])
    expect(await json('jobs', 'find', 'shared', '--tenant', 'acme', '--by', 'id')).toMatchObject({
      items: [
        { id: 'a', tenant: 'acme' },
        { id: 'c', tenant: 'acme' },
      ],
    })
    expect(await json('jobs', 'find', 'shared', '--no-tenant')).toMatchObject({
      items: [{ id: 'd', tenant: null }],
    })
    expect((await json('jobs', 'find', 'shared')) as object).toMatchObject({ items: { length: 4 } })
    expect((await runHere(['jobs', 'find', 'shared'], env)).stdout).toMatch(/tenant .*b\\u202eolt/s)
    expect(await json('tenants', 'shared', '--limit', '1')).toEqual({
      total: 2,
      rules: [],
      items: [{ tenant: 'acme', waiting: 2, working: 0, lag: 0, pushes: [], lane: 0, throttled: false }],
      next: expect.any(String),
    })
    const rules = {
      window: 86_400,
      rules: [
        { over: 1_000, per: 86_400, lane: 1 },
        { over: 0, per: 60, lane: 2 },
      ],
    }
    await client.query(
      "SELECT lockstep.set_fairness(queue_id, $1) FROM lockstep.queues WHERE name = 'shared'",
      [rules],
    )
    const shown = await runHere(['tenants', 'shared', '--limit', '1'], env)
    expect(shown.stdout.split('\n')[1]).toMatch(
      /tenant .* waiting .* working .* lag .* pushed in 1 d .* pushed in 1 min .* lane .* throttled/,
    )
    expect(shown.stdout).toMatch(/acme .* 2 .* 0 .* 0 ms .* 0 of 1,000 .* 0 of 0 .* 2 .* yes/)
    expect(shown.stderr).toMatch(/2 tenants in all\n.*show them with --after /)
    expect(await json('jobs', 'perform-now', 'shared', '--tenant', 'acme')).toEqual({ done: 2, total: 2 })
    expect(await json('jobs', 'kill', 'shared', '--tenant', 'acme')).toEqual({ done: 2, total: 2 })
    expect(await json('morgue', 'requeue', 'shared', '--tenant', 'acme', '--id', 'a')).toEqual({
      done: 1,
      total: 1,
    })
    expect((await runHere(['morgue', 'list', 'shared'], env)).stdout).toMatch(/tenant .*acme/s)
    expect(await json('morgue', 'delete', 'shared', '--tenant', 'bolt')).toEqual({ done: 0, total: 0 })
    expect(await json('jobs', 'delete', 'shared', '--no-tenant')).toEqual({ done: 1, total: 1 })
    expect(await json('jobs', 'delete', 'shared', '--all')).toEqual({ done: 2, total: 2 })
    await client.query(
      "SELECT lockstep.set_fairness(queue_id, NULL) FROM lockstep.queues WHERE name = 'shared'",
    )
    expect((await runHere(['tenants', 'shared'], env)).stdout).toBe('no job has a tenant\n')
    const missing = await runHere(['tenants', 'shard'], env)
    expect([missing.code, missing.stderr]).toEqual([1, expect.stringMatching(/did you mean "shared"/)])
  })

  it('show a payload that is nested deeper than JSON can be written, and those beside it', async () => {
    await push('deep', ['b'])
    await client.query(
      `SELECT lockstep.enqueue('deep', 'a', (repeat('[', 5500) || repeat(']', 5500))::jsonb)`,
    )
    const list = async (...command: string[]) => {
      const shown = await runHere(command, env)
      expect(shown.code).toBe(0)
      expect(shown.stdout).toContain('(nested too deep)')
      expect(shown.stdout).toContain('{"of":"b"}')
      const written = await runHere([...command, '--json'], env)
      expect(written).toMatchObject({ code: 0, stderr: expect.stringContaining('1 payload nested too deep') })
      return JSON.parse(written.stdout).items
    }
    expect(await list('jobs', 'find', 'deep', '--by', 'id')).toMatchObject([
      { id: 'a', payloads: [{ payload: null }] },
      { id: 'b', payloads: [{ payload: { of: 'b' } }] },
    ])
    expect(await json('jobs', 'kill', 'deep', '--all')).toEqual({ done: 2, total: 2 })
    expect(await list('morgue', 'list', 'deep', '--by', 'id')).toMatchObject([
      { id: 'a', payload: null },
      { id: 'b', payload: { of: 'b' } },
    ])
    expect(await json('morgue', 'delete', 'deep', '--all')).toEqual({ done: 2, total: 2 })
  })

  it('pause, resume and reshard', async () => {
    await push(
      'mails',
      Array.from({ length: 50 }, (_, index) => `mail-${index}`),
    )
    const mails = async () => (await library.stats()).queues.find(({ queue }) => queue === 'mails')
    expect(await json('pause', 'mails')).toEqual({ queue: 'mails', paused: true })
    expect(await mails()).toMatchObject({ pausedAt: expect.any(Date) })
    expect(await json('resume', 'mails')).toEqual({ queue: 'mails', paused: false })
    expect(await mails()).toMatchObject({ pausedAt: null })
    expect(await json('reshard', 'mails', '1')).toMatchObject({ done: expect.any(Number) })
    expect(await mails()).toMatchObject({ shards: 1, waiting: 50 })
  })

  it('are recorded: who, what, with what result, and why it failed', async () => {
    await push('audited', ['a', 'b'])
    await client.query('DELETE FROM lockstep.audit')
    const quietly = (...args: string[]) => runHere(args, env)
    await quietly('pause', 'audited')
    await quietly('resume', 'audited', '--by', 'anna')
    await quietly('jobs', 'perform-now', 'audited', '--id', 'a', '--by', 'anna')
    await quietly('jobs', 'kill', 'audited', '--all')
    await quietly('morgue', 'requeue', 'audited', '--id', 'a')
    await quietly('morgue', 'delete', 'audited', '--all')
    await quietly('jobs', 'delete', 'audited', '--all')
    await quietly('reshard', 'audited', '3')
    await quietly('delete-queue', 'audited', '--with-jobs')
    expect(await quietly('pause', 'audited', '--by', 'anna')).toMatchObject({ code: 1 })
    const { username } = userInfo()
    const told = (by: string, action: string, affected: number | null, details: object) => ({
      ...{ by, action, affected, details, queue: 'audited', endedAt: expect.any(String) },
    })
    expect((await json('audit')) as unknown[]).toMatchObject(
      [
        told(username, 'pause', null, {}),
        told('anna', 'resume', null, {}),
        told('anna', 'performNow', 1, { ids: ['a'] }),
        told(username, 'kill', 2, {}),
        told(username, 'requeue', 1, { ids: ['a'] }),
        told(username, 'deleteDead', 1, {}),
        told(username, 'delete', 1, {}),
        told(username, 'reshard', 0, { shards: 3 }),
        told(username, 'deleteQueue', 0, { withJobs: true }),
        { ...told('anna', 'pause', null, {}), error: expect.stringContaining('does not exist') },
      ].reverse(),
    )
    const [last] = (await json('audit', '--limit', '1')) as [{ id: number }]
    expect(await json('audit', '--limit', '1', '--before', String(last.id))).toMatchObject([
      { action: 'deleteQueue' },
    ])
    await client.query(
      "UPDATE lockstep.audit SET ended_at = NULL, actor = E'an\u001bna' WHERE audit_id = $1",
      [last.id],
    )
    const shown = await runHere(['audit', '--limit', '2'], env)
    for (const text of ['not ended', 'an\\x1bna', '{"withJobs":true}']) expect(shown.stdout).toContain(text)
    expect(shown.stderr).toContain('--before')
  })

  it('show why a job failed, if asked', async () => {
    const queue = defineQueue('trying', {
      maxRetryCount: 2,
      perform: () => Promise.reject(new Error('no \u001b[2J')),
      retryIn: () => 0,
    })
    await library.enqueue(queue, { id: 'a' })
    for (const [list, count] of [
      [['jobs', 'find', 'trying'], 1],
      [['jobs', 'find', 'trying'], 2],
      [['morgue', 'list', 'trying'], 3],
    ] as const) {
      await drain(library, queue).catch(() => {})
      const without = (await json(...list)) as { items: object[] }
      expect(without.items).toHaveLength(1)
      expect(without.items[0]).not.toHaveProperty('attempts')
      const { items } = (await json(...list, '--attempts')) as {
        items: { attempts: { kind: string; error: string }[] }[]
      }
      expect(items[0]!.attempts).toHaveLength(count)
      expect(items[0]!.attempts[0]).toMatchObject({
        kind: 'failure',
        error: expect.stringMatching(/^Error: no/),
      })
      const { stdout } = await runHere([...list, '--attempts'], env)
      expect(stdout.match(/failure/g)).toHaveLength(count)
      expect(stdout).not.toContain('\u001b')
    }
  })

  it('show tables to people, with nothing in them that moves the cursor', async () => {
    await push('evil\u001b[2J', ['id\u001b[31m\u202e'])
    const stats = await runHere(['stats'], env)
    expect(stats.stdout).toContain('evil\\x1b[2J')
    const jobs = await runHere(['jobs', 'find', 'evil\u001b[2J'], env)
    expect(jobs.stdout).toContain('id\\x1b[31m\\u202e')
    const top = await runHere(['top', '--once'], env)
    expect(top.stdout).toContain('0 processes')
    for (const { code, stdout } of [stats, jobs, top]) {
      for (const unsafe of ['\u001b', '\u202e']) expect(stdout).not.toContain(unsafe)
      expect(code).toBe(0)
    }
  })

  it.each([
    ['jobs', 'find', 'ordrs'],
    ['morgue', 'requeue', 'ordrs', '--all'],
    ['pause', 'ordrs'],
    ['reshard', 'ordrs', '3'],
  ])('%s %s of a queue that does not exist names the nearest', async (...args) => {
    await push('orders', ['x'])
    const { code, stderr } = await runHere(args, env)
    expect(stderr).toBe('lockstep: queue "ordrs" does not exist: did you mean "orders"?\n')
    expect(code).toBe(1)
  })
})

describe('rates', () => {
  it('are those of the last ten seconds', () => {
    const rates = new Rates()
    const at = (ms: number, processed: number) =>
      rates.after([{ queue: 'q', processed, failed: 1 }], ms).get('q')
    expect(at(0, 100)).toBeUndefined()
    expect(at(1_000, 200)).toBe(100)
    expect(at(5_000, 600)).toBe(100)
    expect(at(20_000, 600)).toBe(0)
  })
})

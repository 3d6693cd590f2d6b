import { once } from 'node:events'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { Lockstep } from '../../src/lockstep.ts'
import { type LockstepWeb, lockstepWeb } from '../../src/web/index.ts'
import { openStore, type StoreEnvironment, type TestQueue, until } from '../support/store-environment.ts'
import { linesOf, type Site, serve } from './site.ts'

const JOBS = 2_000
/** In the second chunk of 500. */
const HELD = 'job 0700'

let env: StoreEnvironment
let queue: TestQueue
let web: LockstepWeb
let site: Site
const log = vi.fn()

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env.close())

beforeEach(async () => {
  log.mockReset()
  queue = await env.queue()
  const logger = { debug() {}, info: log, warn: log, error() {} }
  web = lockstepWeb(new Lockstep({ pool: env.database.pool, logger }), { access: 'open' })
  site = await serve(web.node)
  const ids = Array.from({ length: JOBS }, (_, n) => `job ${String(n).padStart(4, '0')}`)
  await queue.push(...ids.map((id) => ({ id })))
})

const path = () => `/api/v1/queues/${encodeURIComponent(queue.queue.name)}/jobs/delete`
const told = (text: string) =>
  until(() => expect(log).toHaveBeenCalledWith(expect.anything(), expect.stringContaining(text)))

/** Holds a job's row, as a producer's open transaction does. */
async function hold() {
  const session = await env.transaction()
  await session.query('SELECT FROM lockstep.jobs WHERE queue_id = $1 AND id = $2 FOR UPDATE', [
    queue.queueId,
    HELD,
  ])
  return session
}

/** The action has done a chunk and waits; then its client goes away, and the row becomes free. */
async function leaveHalfway(
  leave: () => Promise<void>,
  holder: Awaited<ReturnType<typeof hold>>,
): Promise<void> {
  await until(async () => expect(await queue.countJobs()).toBeLessThanOrEqual(JOBS - 500))
  await leave()
  await holder.query('ROLLBACK')
  await told('stopped: its client went away')
  const left = await queue.countJobs()
  expect(left).toBeGreaterThan(0)
  expect(left).toBeLessThanOrEqual(JOBS - 500)
  // Nothing goes on in the background.
  expect((await env.lockstep.delete(queue.queue, {})).done).toBe(left)
}

async function readAll(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  while (!(await reader.read()).done);
}

describe('an action whose client goes away stops, and what is done stays done:', () => {
  it('over HTTP', async () => {
    const holder = await hold()
    const headers = site.from(await site.visit())
    const incoming = await site.begin(path(), { body: { all: true }, headers })
    await once(incoming, 'data')
    await leaveHalfway(async () => void incoming.destroy(), holder)
  })

  it('through fetch, by a reader that cancels', async () => {
    const holder = await hold()
    const headers = { ...site.from(await site.visit()), 'content-type': 'application/json' }
    const request = new Request(`${site.origin}${path()}`, { method: 'POST', headers, body: '{"all":true}' })
    const reader = (await web.fetch(request)).body!.getReader()
    await reader.read()
    await reader.read()
    const waiting = reader.read()
    await leaveHalfway(async () => {
      void reader.cancel()
      expect((await waiting).done).toBe(true)
    }, holder)
  })

  it('through fetch, by a request that is aborted', async () => {
    const holder = await hold()
    const leaving = new AbortController()
    const headers = { ...site.from(await site.visit()), 'content-type': 'application/json' }
    const { signal } = leaving
    const init = { method: 'POST', headers, body: '{"all":true}', signal }
    const reader = (await web.fetch(new Request(`${site.origin}${path()}`, init))).body!.getReader()
    await reader.read()
    const rest = readAll(reader).catch((error: Error) => error.name)
    await leaveHalfway(async () => leaving.abort(), holder)
    expect(await rest).toBe('AbortError')
  })
})

it('an action that fails half-way says so in its last line, and keeps the server’s words to itself', async () => {
  await env.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the secret of %', OLD.id; END $$`)
  await env.query(`CREATE TRIGGER refuse BEFORE DELETE ON lockstep.jobs FOR EACH ROW
    WHEN (OLD.id = '${HELD}') EXECUTE FUNCTION refuse()`)
  const answer = await site.act(path(), { all: true })
  await env.query('DROP TRIGGER refuse ON lockstep.jobs')
  expect(answer.status).toBe(200)
  const lines = linesOf(answer)
  expect(lines.slice(0, 2)).toEqual([
    { done: 0, total: JOBS },
    { done: 500, total: JOBS },
  ])
  expect(lines.at(-1)).toMatchObject({ error: { status: 500, code: 'LOCKSTEP_INTERNAL' } })
  expect(answer.text).not.toContain('secret')
  expect(await queue.countJobs()).toBe(JOBS - 500)
  await told('failed')
})

it('an action that has to wait for a process that seems dead answers before that', async () => {
  await env.query(
    `INSERT INTO lockstep.processes (host, pid, version, slots, queues, lease, expires_at)
     VALUES ('gone', 1, '0', 1, ARRAY[$1], 2500, now() - interval '1 hour')`,
    [queue.queue.name],
  )
  const incoming = await site.begin(path(), { body: { all: true }, headers: site.from(await site.visit()) })
  expect(incoming.statusCode).toBe(200)
  expect(await env.lockstep.processes()).toContainEqual(expect.objectContaining({ host: 'gone' }))
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk)
  expect(Buffer.concat(chunks).toString()).toContain(`{"result":{"done":${JOBS},"total":${JOBS}}}`)
  expect(await env.lockstep.processes()).not.toContainEqual(expect.objectContaining({ host: 'gone' }))
})

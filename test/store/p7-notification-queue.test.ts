import { afterAll, beforeAll, expect, test } from 'vitest'
import { startEmbeddedPostgres } from '../../src/postgres/embedded.ts'
import { lockShared } from '../../src/store/lock.ts'
import { StoreEnvironment } from '../support/store-environment.ts'

const FULL = '54000'

let env: StoreEnvironment
/** Before Postgres 17 the queue's size can't be set, and 8 GB are too much to fill in a test. */
let small = false

beforeAll(async () => {
  const server = await startEmbeddedPostgres({ settings: { fsync: 'off' } })
  env = new StoreEnvironment(server.connectionString, 'lockstep', () => server.stop())
  const [row] = await env.query<{ small: boolean }>(
    `SELECT current_setting('max_notify_queue_pages', true) IS NOT NULL AS small`,
  )
  small = row!.small
  if (!small) return
  await env.query('ALTER SYSTEM SET max_notify_queue_pages = 64')
  await server.restart()
  await env.lockstep.migrate()
})
afterAll(() => env?.close())

/**
 * A session that listens but stays in a transaction receives nothing, so the server must keep all notifications for it.
 */
async function fillQueue(): Promise<void> {
  const deaf = await env.session()
  await deaf.query('LISTEN anything')
  await deaf.query('BEGIN')
  await deaf.query('SELECT 1')
  const talker = await env.session()
  for (let n = 0; ; n += 1) {
    try {
      await talker.query(`SELECT pg_notify('anything', $1)`, [`${n} ${'x'.repeat(7_000)}`])
    } catch (error) {
      expect(error).toMatchObject({ code: FULL })
      return
    }
  }
}

test('P7: a notification queue that somebody else keeps full makes no push fail', async (context) => {
  if (!small) return context.skip()
  const testQueue = await env.queue()
  await lockShared(await env.session(), 'lockstep', 'queues', [testQueue.queueId])
  await fillQueue()
  expect(await testQueue.push({ id: 'a', payload: 'v', score: 1 })).toBe(1)
  expect(await testQueue.set('a')).toEqual(['v[1]'])
})

import { execFileSync } from 'node:child_process'
import { afterEach, expect, test } from 'vitest'
import type { QueueShards, Share } from '../../src/index.ts'
import { SERIAL } from '../../src/postgres/serial.ts'
import { Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

afterEach(async () => {
  await env.sql('DELETE FROM lockstep.release')
  await env.lockstep.migrate()
})

/** Does what a later release's migration does, which notifies workers at once. */
async function migratedByLater(oldestServed: number): Promise<void> {
  await env.sql(`UPDATE lockstep.release SET serial = $1, oldest_served = $2, version = '9.9.9'`, [
    SERIAL + 2,
    oldestServed,
  ])
  await env.sql("SELECT pg_notify('lockstep', 'rebalance')")
}

test('P3: a worker that a later release no longer serves takes nothing new, stores what runs, and stops', async () => {
  const gate = new Gate()
  const begun: string[] = []
  const queue = env.queue({
    shards: 1,
    perform(batch) {
      begun.push(...batch.keys())
      return gate.opened
    },
  })
  const worker = await env.work({
    queues: [queue],
    slots: 1,
    rebalanceInterval: 60_000,
    shutdownTimeout: 60_000,
  })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await started
  await env.lockstep.enqueue(queue, { id: 'b' })
  const outdated = next(worker, 'outdated')
  await migratedByLater(SERIAL + 1)
  expect(await outdated).toEqual({ version: '9.9.9', serial: SERIAL + 2 })
  expect(env.warnings).toMatchObject([{ fields: { version: '9.9.9' }, message: /later release.*stopping/ }])

  gate.open()
  expect(await worker.stop()).toBe(true)
  expect(begun).toEqual(['a'])
  expect(await env.job(queue, 'a')).toBeUndefined()
  expect(await env.job(queue, 'b')).toMatchObject({ claimed_by: null, retry_count: -1, crashes: 0 })
  expect(await env.sql('SELECT FROM lockstep.processes')).toEqual([])
})

test('one that compares just when it is told does so again', async () => {
  const queue = env.queue({ shards: 2, perform() {} })
  let quota = 1
  let migrates = false
  const splitter = {
    share({ shards }: QueueShards): Share {
      // The comparison has looked for a later release already. It goes on to lock a shard, and the message arrives
      // meanwhile.
      if (migrates) {
        migrates = false
        quota = 2
        migratedMeanwhile()
      }
      return { quota, wanted: shards, slotOf: () => undefined }
    },
  }
  // Workers also look at other processes once a lease.
  const worker = await env.work({ queues: [queue], rebalanceInterval: 60_000, lease: 60_000, splitter })
  const outdated = next(worker, 'outdated')
  migrates = true
  await env.sql('SELECT pg_notify($1, $2)', ['lockstep', 'rebalance'])
  await outdated
  await worker.stop()
})

/** Like `migratedByLater`, but while this process stands still. */
function migratedMeanwhile(): void {
  const script = `
    import pg from 'pg'
    const client = new pg.Client({ connectionString: process.env.SERVER })
    await client.connect()
    await client.query("UPDATE lockstep.release SET serial = ${SERIAL + 2}, oldest_served = ${SERIAL + 1}, version = '9.9.9'")
    await client.query("SELECT pg_notify('lockstep', 'rebalance')")
    // The server passes it on a moment later, even later if it is busy.
    await new Promise((resolve) => setTimeout(resolve, 300))
    await client.end()`
  execFileSync(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, SERVER: env.connectionString },
  })
}

test('a worker whose rebalance interval alone tells it stops too; one that is still served goes on', async () => {
  const queue = env.queue({ perform() {} })
  const worker = await env.work({ queues: [queue], rebalanceInterval: 50 })
  await migratedByLater(SERIAL)
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await completed
  const outdated = next(worker, 'outdated')
  await env.sql('UPDATE lockstep.release SET oldest_served = $1', [SERIAL + 1])
  await outdated
  expect(await worker.stop()).toBe(true)
  await expect(env.create({ queues: [queue] }).start()).rejects.toMatchObject({
    code: 'LOCKSTEP_SCHEMA_NEW',
  })
})

test('a worker whose comparison a later release has made impossible stops, too', async () => {
  const worker = await env.work({
    queues: [env.queue({ perform() {} })],
    rebalanceInterval: 60_000,
    lease: 60_000,
  })
  const outdated = next(worker, 'outdated')
  await env.sql('ALTER TABLE lockstep.queues RENAME COLUMN paused_at TO resting_since')
  await migratedByLater(SERIAL + 1)
  const told = await outdated
  await env.sql('ALTER TABLE lockstep.queues RENAME COLUMN resting_since TO paused_at')
  expect(told).toEqual({ version: '9.9.9', serial: SERIAL + 2 })
  await worker.stop()
})

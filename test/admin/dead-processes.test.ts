import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { registerProcess, renewLeases } from '../../src/store/process.ts'
import { Claimer, openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'

const LEASE = 600

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())

/** A process that serves the queue, has its job in progress, and by the server's clock should have renewed its lease. */
async function claimant(testQueue: TestQueue, lease: number): Promise<Claimer> {
  const info = { host: 'here', pid: 1, version: '0', slots: 1, queues: [testQueue.queue.name] }
  const claimer = new Claimer(
    testQueue,
    await registerProcess(env.database.pool, 'lockstep', info, lease),
    env.database,
  )
  await testQueue.push({ id: 'a' })
  await claimer.take()
  await env.query(
    `UPDATE lockstep.processes SET expires_at = clock_timestamp() - interval '1 hour' WHERE process_id = $1`,
    [claimer.processId],
  )
  return claimer
}

describe('P1 R11 where no worker runs', () => {
  test.each(['delete', 'kill'] as const)(
    '%s takes what a dead process left, after its lease',
    async (action) => {
      const testQueue = await env.queue()
      const dead = await claimant(testQueue, LEASE)
      expect(await env.lockstep.processes()).toContainEqual(
        expect.objectContaining({ processId: dead.processId, overdue: true, working: 1 }),
      )
      const startedAt = performance.now()
      expect(await env.lockstep[action](testQueue.queue, {})).toEqual({ done: 1, total: 1 })
      expect(performance.now() - startedAt).toBeGreaterThan(LEASE)
      expect(await testQueue.countJobs()).toBe(0)
    },
  )

  test('a queue that a dead process served can be deleted, after its lease', async () => {
    const testQueue = await env.queue()
    await claimant(testQueue, LEASE)
    await env.lockstep.deleteQueue(testQueue.queue, { withJobs: true })
    expect((await env.lockstep.stats()).queues.map(({ queue }) => queue)).not.toContain(testQueue.queue.name)
  })

  test('what a process has in work that only seems dead is left alone', async () => {
    const testQueue = await env.queue()
    const claimer = await claimant(testQueue, LEASE)
    const deleting = env.lockstep.delete(testQueue.queue, {})
    const renewing = setInterval(
      () => void renewLeases(env.database.pool, 'lockstep', [claimer.processId], LEASE),
      LEASE / 4,
    )
    expect(await deleting).toEqual({ done: 0, total: 0 })
    clearInterval(renewing)
    expect(await testQueue.job('a')).toMatchObject({ claimed_by: claimer.processId })
  })

  test('the wait ends with its signal, and a longer lease is not waited for', async () => {
    const testQueue = await env.queue()
    await claimant(testQueue, 20_000)
    const deleting = env.lockstep.delete(testQueue.queue, {}, { signal: AbortSignal.timeout(200) })
    await expect(deleting).rejects.toThrow(/timeout/)
    const other = await env.queue()
    await claimant(other, 3_600_000)
    expect(await env.lockstep.delete(other.queue, {})).toEqual({ done: 0, total: 0 })
  })
})

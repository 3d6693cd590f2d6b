import { describe, expect, test, vi } from 'vitest'
import type { ServerMiddleware } from '../../src/index.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

// The last check of the lease was before the process stood still, and no message reports the end of the lease
// meanwhile.
describe('P1: a process that stood still between its claim and its handler does not begin', () => {
  const swallow: ServerMiddleware = (_, perform) => perform().catch(() => {})
  const passOn: ServerMiddleware = (_, perform) => perform()
  const ways = { 'in a transaction': { transactional: true }, 'without one': { transactional: false } }

  test.each(
    Object.entries(ways).flatMap(([way, { transactional }]) => [
      [way, 'passes the error on', transactional, passOn] as const,
      [way, 'swallows it', transactional, swallow] as const,
    ]),
  )('%s, where middleware %s', async (_way, _does, transactional, outer) => {
    const lease = 1_000
    const told: string[] = []
    const perform = () => void told.push('performed')
    const queue = transactional ? env.transactional({ perform }) : env.queue({ perform })
    let standStill = true
    // Makes the worker's renewals wait.
    const blocker = await env.session()
    const inner: ServerMiddleware = async (_, perform) => {
      if (standStill) await blocker.query('BEGIN; LOCK TABLE lockstep.processes IN SHARE MODE')
      const until = performance.now() + 1.2 * lease
      while (standStill && performance.now() < until);
      await perform().catch((error) => {
        told.push(error.message)
        throw error
      })
    }
    const worker = await env.work({ queues: [queue], middleware: [outer, inner], lease })
    const failed = vi.fn()
    worker.on('failed', failed)
    const lost = next(worker, 'leaseLost')
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(queue, { id: 'late' })
    await lost
    standStill = false
    await blocker.query('COMMIT')
    await completed
    expect(told).toEqual(['the lease ended before the handler began', 'performed'])
    expect(failed).not.toHaveBeenCalled()
  })
})

// Waiting renewals cost the worker its connection, and it registers again over the next one before the lease has ended.
test('P1: what was taken before a lease ended does not begin under the next, whichever of the two comes first', async () => {
  // Long enough to connect again before the lease ends, on a slow machine too.
  const lease = 3_000
  const fences: number[] = []
  const queue = env.queue({
    perform: (_, { jobs }) => void fences.push(jobs.get('late')!.fence),
  })
  const gate = new Gate()
  const worker = await env.work({
    queues: [queue],
    middleware: [
      async (_, perform) => {
        await gate.opened
        await perform()
      },
    ],
    lease,
  })
  const { processId } = worker
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'late' })
  await started
  const [claimed] = await env.sql<{ fence: number }>("SELECT fence::int FROM lockstep.jobs WHERE id = 'late'")
  const blocker = await env.session()
  await blocker.query('BEGIN; LOCK TABLE lockstep.processes IN SHARE MODE')
  await next(worker, 'leaseLost', () => true, 10_000)
  await blocker.query('COMMIT')
  await vi.waitUntil(() => worker.processId !== processId, { timeout: 2 * lease }).catch(() => {})
  const completed = next(worker, 'completed')
  gate.open()
  await completed
  expect(fences).toHaveLength(1)
  expect(fences[0]).toBeGreaterThan(claimed!.fence)
})

// A claim under way is no handler, so the next lease does not wait for it.
test('P1: what a claim brings after its lease has ended does not begin under the next', async () => {
  await env.sql('CREATE SEQUENCE claims; CREATE TABLE claimed (fence bigint)')
  await env.sql(`CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF nextval('public.claims') = 1 THEN PERFORM pg_sleep(6); END IF;
      INSERT INTO public.claimed VALUES (NEW.fence);
      RETURN NEW;
    END $$`)
  await env.sql(`CREATE TRIGGER dawdle BEFORE UPDATE ON lockstep.jobs FOR EACH ROW
    WHEN (OLD.claimed_by IS NULL AND NEW.claimed_by IS NOT NULL) EXECUTE FUNCTION dawdle()`)
  env.later(() => env.sql('DROP FUNCTION dawdle CASCADE'))
  const fences: number[] = []
  const queue = env.queue({ perform: (_, { jobs }) => void fences.push(jobs.get('late')!.fence) })
  const worker = await env.work({ queues: [queue], lease: 1_000 })
  const { processId } = worker
  const [lost, completed] = [next(worker, 'leaseLost'), next(worker, 'completed')]
  await env.lockstep.enqueue(queue, { id: 'late' })
  const asleep = () =>
    env.sql("SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()")
  await eventually(async () => expect(await asleep()).toHaveLength(1))
  const blocker = await env.session()
  await blocker.query('BEGIN; LOCK TABLE lockstep.processes IN SHARE MODE')
  await lost
  await blocker.query('COMMIT')
  await vi.waitUntil(() => worker.processId !== processId, { timeout: 4_000 })
  expect(fences).toEqual([])
  await completed
  const claimed = await env.sql<{ fence: string }>('SELECT fence FROM claimed ORDER BY fence')
  expect(claimed.length).toBeGreaterThan(1)
  expect(fences).toEqual([Number(claimed.at(-1)!.fence)])
})

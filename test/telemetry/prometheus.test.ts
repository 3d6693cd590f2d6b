import { Registry } from 'prom-client'
import { expect, test, vi } from 'vitest'
import { Discard, Lockstep, type Queue, Snooze } from '../../src/index.ts'
import { METRICS } from '../../src/telemetry/catalogue.ts'
import {
  type PrometheusInstrument,
  type PrometheusOptions,
  prometheus,
} from '../../src/telemetry/prometheus.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'
import { Exposition } from './exposition.ts'
import { hasPromtool, promtool } from './promtool.ts'

const env = useWorkers()

interface Measured {
  readonly instrument: PrometheusInstrument
  readonly lockstep: Lockstep
  scrape(): Promise<Exposition>
}

function measured(options: PrometheusOptions = {}, connectionString = env.connectionString): Measured {
  const instrument = prometheus({ register: new Registry(), ...options })
  const lockstep = new Lockstep({ connectionString, logger: env.logger, instrumentation: [instrument] })
  env.later(() => lockstep.close())
  return { instrument, lockstep, scrape: async () => new Exposition(await instrument.metrics()) }
}

const endings: Readonly<Record<string, unknown>> = {
  fails: new Error('fails'),
  snoozes: new Snooze(600),
  drops: new Discard('drops', { morgue: false }),
  dies: new Discard('dies'),
}

/** Its ids say how their rounds end. */
const ending = () =>
  env.queue({
    retryIn: () => 600,
    perform(batch) {
      for (const id of batch.keys()) if (endings[id]) throw endings[id]
    },
  })

test('what happens to jobs is counted, from the push to the end', async () => {
  const { lockstep, scrape } = measured()
  const queue = ending()
  await lockstep.enqueue(queue, [
    { id: 'good', payload: 1, performIn: Date.now() - 2_000 },
    { id: 'good', payload: 2 },
    { id: 'good', payload: 3 },
    ...Object.keys(endings).map((id) => ({ id, payload: id })),
    { id: 'dies', payload: 'too' },
  ])
  await expect(lockstep.enqueue(queue, { id: '' })).rejects.toThrow()
  await env.create({ queues: [queue], lease: 500 }, lockstep).start()
  const of = { queue: queue.name }
  const outcome = async (name: string) =>
    (await scrape()).value('lockstep_performed_total', { ...of, outcome: name })
  for (const [name, count] of Object.entries({ completed: 1, failed: 2, snoozed: 1, dropped: 1 }))
    await eventually(async () => expect(await outcome(name)).toBe(count))
  await eventually(async () =>
    expect((await scrape()).value('lockstep_lease_renewal_seconds_count')).toBeGreaterThan(0),
  )
  const scraped = await scrape()
  const count = (name: string) => scraped.value(`lockstep_${name}_total`, of)
  expect(count('enqueued')).toBe(8)
  expect(count('enqueue_errors')).toBe(1)
  expect(count('handed')).toBe(8)
  expect(count('merged')).toBe(2)
  expect(count('died')).toBe(2)
  expect(count('rescued')).toBe(0)
  expect(count('refused')).toBe(0)
  expect(scraped.value('lockstep_enqueue_seconds_count', of)).toBe(2)
  expect(scraped.value('lockstep_run_seconds_count', of)).toBe(5)
  expect(scraped.value('lockstep_wait_seconds_count', of)).toBe(5)
  expect(scraped.value('lockstep_wait_seconds_sum', of)).toBeGreaterThan(2)
})

test('rounds that were rescued, and outcomes that came too late, are counted', async () => {
  const { lockstep, scrape } = measured()
  const begun = new Gate()
  const gate = new Gate()
  const queue = env.queue({
    perform() {
      begun.open()
      return gate.opened
    },
  })
  await lockstep.enqueue(queue, { id: 'a' })
  const [gone] = await env.sql<{ number: number }>(
    "SELECT nextval('lockstep.processes_process_id_seq')::int AS number",
  )
  const takeOver = `UPDATE lockstep.jobs SET claimed_by = $1, fence = nextval('lockstep.fences') WHERE id = 'a'`
  await env.sql(takeOver, [gone!.number])
  const worker = env.create({ queues: [queue] }, lockstep)
  await worker.start()
  await begun.opened
  await env.sql(takeOver, [gone!.number])
  const refused = next(worker, 'refused')
  gate.open()
  await refused
  const scraped = await scrape()
  expect(scraped.value('lockstep_rescued_total', { queue: queue.name })).toBeGreaterThan(0)
  expect(scraped.value('lockstep_refused_total', { queue: queue.name })).toBe(1)
})

/** From now on, no time passes for this test, but for an hour whenever it says so. */
function stopClock(): () => void {
  let now = performance.now()
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now)
  env.later(() => clock.mockRestore())
  return () => {
    now += 3_600_000
  }
}

test('gauges show the state of queues, workers and snapshots', async () => {
  const { lockstep, scrape } = measured()
  const gate = new Gate()
  const queue = env.queue({ shards: 4, perform: () => gate.opened })
  const idle = env.queue({})
  await lockstep.enqueue(idle, [
    { id: 'late', performIn: Date.now() - 90_000 },
    { id: 'later', performIn: Date.now() + 90_000 },
  ])
  await lockstep.pause(idle)
  await lockstep.kill(idle, { ids: ['later'] })
  await lockstep.enqueue(queue, { id: 'a' })
  const worker = env.create({ queues: [queue], slots: 3 }, lockstep)
  const started = next(worker, 'started')
  await worker.start()
  await started
  const session = await env.session()
  await session.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1')
  const scraped = await scrape()
  const gauge = (name: string, of?: Queue) => scraped.value(`lockstep_${name}`, of && { queue: of.name })
  expect(gauge('shards')).toBe(4)
  expect(gauge('slots')).toBe(3)
  expect(gauge('slots_running')).toBe(1)
  expect(gauge('database_readable')).toBe(1)
  expect(gauge('jobs_waiting', idle)).toBe(1)
  expect(gauge('jobs_due', idle)).toBe(1)
  expect(gauge('jobs_working', queue)).toBe(1)
  expect(gauge('payloads_dead', idle)).toBe(1)
  expect(gauge('lag_seconds', idle)).toBeGreaterThan(89)
  expect(gauge('lag_seconds', idle)).toBeLessThan(600)
  expect(gauge('lag_seconds', queue)).toBe(0)
  expect(gauge('queue_paused', idle)).toBe(1)
  expect(gauge('queue_paused', queue)).toBe(0)
  expect(gauge('oldest_snapshot_seconds')).toBeGreaterThan(0)
  expect(gauge('oldest_snapshot_seconds')).toBeLessThan(600)
  gate.open()
  await worker.stop()
  expect((await scrape()).value('lockstep_shards')).toBe(0)
})

test('the database is asked once for scrapes that come together or soon after, and a queue that was deleted is gone', async () => {
  const passHour = stopClock()
  const { lockstep, scrape } = measured()
  const queue = env.queue({})
  await lockstep.enqueue(queue, { id: 'a' })
  const asked = vi.spyOn(lockstep, 'stats')
  await Promise.all([scrape(), scrape()])
  const scraped = await scrape()
  expect(scraped.value('lockstep_jobs_waiting', { queue: queue.name })).toBe(1)
  expect(asked).toHaveBeenCalledTimes(1)
  await lockstep.deleteQueue(queue, { withJobs: true })
  passHour()
  expect((await scrape()).value('lockstep_jobs_waiting', { queue: queue.name })).toBeUndefined()
  expect(asked).toHaveBeenCalledTimes(2)
})

test('what was counted of a queue that was deleted is gone at the next scrape, and begins anew with the queue', async () => {
  const passHour = stopClock()
  const { lockstep, scrape } = measured()
  const [queue, other] = [env.queue({ perform() {} }), env.queue({ perform() {} })]
  for (const one of [queue, other]) await lockstep.enqueue(one, { id: 'a' })
  const worker = env.create({ queues: [queue] }, lockstep)
  const drained = next(worker, 'completed')
  await worker.start()
  await drained
  await worker.stop()
  expect((await scrape()).text).toContain(`"${queue.name}"`)
  passHour()
  await scrape()
  await lockstep.deleteQueue(queue, { withJobs: true })
  passHour()
  await scrape()
  const { text } = await scrape()
  expect(text).not.toContain(`"${queue.name}"`)
  expect(text).toContain(`lockstep_enqueued_total{queue="${other.name}"} 1`)
  await lockstep.enqueue(queue, { id: 'a' }).catch(() => lockstep.enqueue(queue, { id: 'a' }))
  expect((await scrape()).value('lockstep_enqueued_total', { queue: queue.name })).toBe(1)
})

test('so is, at the scrape after that, what was counted of one that no scrape has seen', async () => {
  const passHour = stopClock()
  const { lockstep, scrape } = measured()
  const [queue, other] = [env.queue({}), env.queue({})]
  await scrape()
  for (const one of [queue, other]) await lockstep.enqueue(one, { id: 'a' })
  await lockstep.deleteQueue(queue, { withJobs: true })
  for (let scrapes = 0; scrapes < 2; scrapes += 1) {
    passHour()
    await scrape()
  }
  const { text } = await scrape()
  expect(text).not.toContain(`"${queue.name}"`)
  expect(text).toContain(`lockstep_enqueued_total{queue="${other.name}"} 1`)
})

test('without the database, its gauges show nothing old, and the others go on', async () => {
  const passHour = stopClock()
  const { network, lockstep: distant } = await env.distant()
  const { scrape } = measured({}, network.connectionString)
  const queue = env.queue({})
  await distant.enqueue(queue, { id: 'a' })
  expect((await scrape()).value('lockstep_jobs_waiting', { queue: queue.name })).toBe(1)
  network.cut()
  passHour()
  const scraped = await scrape()
  expect(scraped.value('lockstep_database_readable')).toBe(0)
  expect(scraped.value('lockstep_jobs_waiting', { queue: queue.name })).toBeUndefined()
  expect(scraped.value('lockstep_oldest_snapshot_seconds')).toBeUndefined()
  expect(scraped.value('lockstep_shards')).toBe(0)
})

test('after close() the database is not asked', async () => {
  const { lockstep, scrape } = measured()
  const asked = vi.spyOn(lockstep, 'stats')
  await lockstep.close()
  expect((await scrape()).value('lockstep_database_readable')).toBeUndefined()
  expect(asked).not.toHaveBeenCalled()
})

test('a process may leave out the gauges that are the same in all, and choose names and buckets', async () => {
  const { lockstep, scrape } = measured({ databaseGauges: false, prefix: 'jobs:', buckets: [1, 60] })
  const asked = vi.spyOn(lockstep, 'stats')
  const queue = env.queue({})
  await lockstep.enqueue(queue, { id: 'a' })
  const scraped = await scrape()
  expect(scraped.names.filter((name) => !name.startsWith('jobs:'))).toEqual([])
  expect(scraped.names).toContain('jobs:shards')
  expect(scraped.names).not.toContain('jobs:jobs_due')
  expect(asked).not.toHaveBeenCalled()
  const bounds = scraped.samples('jobs:enqueue_seconds_bucket').map(({ labels }) => labels.le)
  expect(bounds).toEqual(['1', '60', '+Inf'])
})

test('no label is an id', () => {
  expect(new Set(Object.values(METRICS).flatMap(({ labels }) => [...labels]))).toEqual(
    new Set(['queue', 'outcome']),
  )
})

test.skipIf(!hasPromtool)('promtool has nothing to complain of', async () => {
  const { lockstep, scrape } = measured()
  const queue = ending()
  await lockstep.enqueue(queue, { id: 'good' })
  const worker = env.create({ queues: [queue] }, lockstep)
  const completed = next(worker, 'completed')
  await worker.start()
  await completed
  expect(promtool(['check', 'metrics'], (await scrape()).text)).toBe('')
})

test('the metrics go into the default registry of prom-client, but only once', async () => {
  const instrument = prometheus()
  expect(await instrument.metrics()).toContain('lockstep_shards 0')
  expect(instrument.contentType).toBe('text/plain; version=0.0.4; charset=utf-8')
  expect(() => prometheus()).toThrow(/has a metric lockstep_enqueued_total already/)
})

test.each([
  [{ registry: new Registry() }, /unknown option `registry`, did you mean `register`\?/],
  [{ register: {} }, /register must be a Registry of `prom-client`, not an object/],
  [{ prefix: 'pg-lockstep.' }, /prefix must be letters/],
  [{ buckets: [1, 1] }, /buckets must be a list of finite numbers/],
  [{ buckets: [] }, /buckets must be a list of finite numbers/],
  [{ buckets: ['1'] as never }, /buckets must be a list of finite numbers/],
  [{ buckets: [1, Number.POSITIVE_INFINITY] }, /buckets must be a list of finite numbers/],
  [{ databaseGauges: 5 }, /databaseGauges must be true or false/],
])('bad options are refused: %o', (options, message) => {
  expect(() => prometheus(options as never)).toThrow(message)
})

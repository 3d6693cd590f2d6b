import { expect, test } from 'vitest'
import { lag, type Scheduler } from '../../src/index.ts'
import { Recorder } from '../support/recorder.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

/** ms: no poll comes within a test. */
const NEVER = 3_600_000
/** ms: far below any poll, far above what a slow machine needs. */
const AT_ONCE = 2_000
/** ms: less than a call to the database may take before it is given up. */
const NOT_HELD_UP = 8_000
const PAST = Date.now() - 100_000

const env = useWorkers()

test('P8: due jobs of a shard start in perform_in order, whatever the order they came in', async () => {
  const recorder = new Recorder()
  const queue = env.queue({ shards: 1, perform: recorder.around() })
  const places = [7, 3, 9, 1, 5, 0, 8, 2, 6, 4]
  for (const place of places) {
    await env.lockstep.enqueue(queue, { id: `id-${9 - place}`, performIn: PAST + place })
  }
  await env.work({ queues: [queue], slots: 4 })
  await eventually(() => expect(recorder.runs).toHaveLength(10))
  expect(recorder.ids).toEqual(places.toSorted().map((place) => `id-${9 - place}`))
})

test('P8: times that a number can’t hold to the microsecond are kept in order too', async () => {
  const recorder = new Recorder()
  const queue = env.queue({ shards: 1, perform: recorder.around() })
  await env.sql('SELECT lockstep.create_queue($1, 1)', [queue.name])
  await env.sql(
    `SELECT lockstep.enqueue($1, 'id-' || n * 37 % 60, perform_in => '0001-01-01 00:00:00+00'::timestamptz
       + n * 37 % 60 * interval '1 microsecond') FROM generate_series(0, 59) AS n`,
    [queue.name],
  )
  await env.work({ queues: [queue], slots: 1 })
  await eventually(() => expect(recorder.runs).toHaveLength(60))
  expect(recorder.ids).toEqual(Array.from({ length: 60 }, (_, n) => `id-${n}`))
})

test('P8: a job due in the future starts at its time, not at the next poll', async () => {
  const startedAt: number[] = []
  const queue = env.queue({ perform: () => void startedAt.push(Date.now()) })
  await env.work({ queues: [queue], poll: NEVER })
  await env.idle(queue)
  const performIn = Date.now() + 300
  await env.lockstep.enqueue(queue, { id: 'a', performIn })
  await eventually(() => expect(startedAt).toHaveLength(1))
  expect(startedAt[0]! - performIn).toBeGreaterThanOrEqual(-1)
  expect(startedAt[0]! - performIn).toBeLessThan(AT_ONCE)
})

test('P8: a push to an idle worker starts at once, in whatever shard and lane', async () => {
  const queue = env.queue({ shards: 3, perform() {} })
  const worker = await env.work({ queues: [queue], poll: NEVER })
  for (const [id, lane] of [
    ['a', 0],
    ['b', 7],
    ['c', 0],
    ['d', 32_767],
    ['e', 7],
  ] as const) {
    await env.idle(queue)
    const completed = next(worker, 'completed')
    const pushedAt = performance.now()
    await env.lockstep.enqueue(queue, { id, lane })
    await completed
    expect(performance.now() - pushedAt).toBeLessThan(AT_ONCE)
  }
})

test('a crowd of wake-ups makes a worker look by itself until it is quiet', async () => {
  const queue = env.queue({ shards: 5, perform() {} })
  const worker = await env.work({ queues: [queue], slots: 5, poll: NEVER })
  await env.idle(queue)
  await eventually(async () => {
    await env.sql(
      `SELECT pg_notify('lockstep', q.queue_id || ' 0:0:' || place)
       FROM lockstep.queues q, generate_series(1, 100) place WHERE q.name = $1`,
      [queue.name],
    )
    expect(await env.flagged(queue)).toBe(false)
  })
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await completed
  await env.idle(queue)
})

test('P8: a worker whose slots are at work asks for no wake-ups, and starts what was pushed meanwhile when one is free', async () => {
  const gate = new Gate()
  const queue = env.queue({ shards: 1, perform: (batch) => (batch.has('long') ? gate.opened : undefined) })
  const worker = await env.work({ queues: [queue], slots: 1, poll: NEVER })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'long' })
  await started
  await eventually(async () => expect(await env.flagged(queue)).toBe(false))
  await env.lockstep.enqueue(queue, { id: 'slow', lane: 9 })
  const completed = next(worker, 'completed', ({ ids }) => ids.includes('slow'))
  gate.open()
  await completed
})

test('P8: a slow handler does not hold up other ids of its shard while a slot is free', async () => {
  const gate = new Gate()
  const queue = env.queue({ shards: 1, perform: (batch) => (batch.has('long') ? gate.opened : undefined) })
  const worker = await env.work({ queues: [queue], slots: 2 })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'long' })
  await started
  for (const id of ['a', 'b', 'c']) {
    const completed = next(worker, 'completed', ({ ids }) => ids.includes(id))
    await env.lockstep.enqueue(queue, { id })
    await completed
  }
  gate.open()
})

test('P8: a push that began while the worker was busy and commits later is found by the next full look', async () => {
  const gate = new Gate()
  const queue = env.queue({ shards: 1, perform: (batch) => (batch.has('long') ? gate.opened : undefined) })
  const worker = await env.work({ queues: [queue], slots: 1, poll: 500 })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'long' })
  await started
  await eventually(async () => expect(await env.flagged(queue)).toBe(false))
  const producer = await env.session()
  await producer.query('BEGIN')
  await producer.query('SELECT lockstep.enqueue($1, $2)', [queue.name, 'late'])
  // Meanwhile the cursor moves past the time of the late job.
  await env.lockstep.enqueue(queue, { id: 'later' })
  const later = next(worker, 'completed', ({ ids }) => ids.includes('later'))
  gate.open()
  await later
  const late = next(worker, 'completed', ({ ids }) => ids.includes('late'))
  await producer.query('COMMIT')
  await late
})

test('P8: a job due in a month lets the worker rest', async () => {
  let picks = 0
  const counting: Scheduler = {
    pick(candidates) {
      picks += 1
      return lag().pick(candidates)
    },
  }
  const far = env.queue({ shards: 1, perform() {} })
  await env.work({ queues: [far], scheduler: counting, poll: NEVER })
  await env.idle(far)
  await env.lockstep.enqueue(far, { id: 'a', performIn: Date.now() + 30 * 86_400_000 })

  const near = env.queue({ perform() {} })
  const other = await env.work({ queues: [near] })
  const completed = next(other, 'completed')
  await env.lockstep.enqueue(near, { id: 'a', performIn: Date.now() + 500 })
  await completed
  expect(picks).toBeLessThan(50)
})

test('a paused queue is not performed, and goes on when it is resumed', async () => {
  const recorder = new Recorder()
  const queue = env.queue({ perform: recorder.around() })
  const other = env.queue({ perform() {} })
  const worker = await env.work({ queues: [queue, other], poll: 100 })
  await env.sql('UPDATE lockstep.queues SET paused_at = now() WHERE name = $1', [queue.name])
  await env.lockstep.enqueue(queue, { id: 'a' })
  for (let count = 0; count < 5; count += 1) {
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(other, { id: count })
    await completed
  }
  expect(recorder.runs).toEqual([])
  const completed = next(worker, 'completed')
  await env.sql('UPDATE lockstep.queues SET paused_at = NULL WHERE name = $1', [queue.name])
  expect(await completed).toMatchObject({ ids: ['a'] })
})

test('P7: a producer’s open transaction on a job in work: the slot goes on, and the completion follows', async () => {
  const gate = new Gate()
  const recorder = new Recorder()
  const queue = env.queue({
    shards: 1,
    perform: recorder.around((batch) => (batch.has('held') ? gate.opened : undefined)),
  })
  const worker = await env.work({ queues: [queue], slots: 1 })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'held', payload: 1 })
  await started
  const producer = await env.session()
  await producer.query('BEGIN')
  await producer.query('SELECT lockstep.enqueue($1, $2, $3)', [queue.name, 'held', '2'])
  gate.open()
  for (const id of ['b', 'c', 'd']) {
    const completed = next(worker, 'completed', ({ ids }) => ids.includes(id), NOT_HELD_UP)
    await env.lockstep.enqueue(queue, { id })
    await completed
  }
  expect(recorder.of('held')).toHaveLength(1)
  expect(await env.job(queue, 'held')).toMatchObject({ claimed_by: worker.processId })
  const completed = next(worker, 'completed', ({ ids }) => ids.includes('held'))
  await producer.query('COMMIT')
  await completed
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(recorder.of('held').map(({ payloads }) => payloads)).toEqual([[1], [2]])
})

test('P7: a waiting job that a producer’s open transaction holds is skipped, not waited for', async () => {
  const recorder = new Recorder()
  const queue = env.queue({ shards: 1, perform: recorder.around() })
  await env.lockstep.enqueue(queue, [
    { id: 'held', performIn: PAST },
    { id: 'free', performIn: PAST + 1 },
  ])
  const producer = await env.session()
  await producer.query('BEGIN')
  await producer.query('SELECT lockstep.enqueue($1, $2, $3)', [queue.name, 'held', '2'])
  const worker = env.create({ queues: [queue], slots: 1 })
  const completed = next(worker, 'completed')
  await worker.start()
  expect(await completed).toMatchObject({ ids: ['free'] })
  await producer.query('COMMIT')
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(recorder.of('held')).toHaveLength(1)
})

test('P7: a snapshot that somebody holds does not stop the work', async () => {
  const recorder = new Recorder()
  const queue = env.queue({ perform: recorder.around() })
  const holder = await env.session()
  await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  const seen = async () => (await holder.query('SELECT count(*)::int AS count FROM lockstep.processes')).rows
  const before = await seen()
  await env.work({ queues: [queue] })
  for (let round = 1; round <= 3; round += 1) {
    const jobs = Array.from({ length: 100 }, (_, id) => ({ id, payload: round }))
    await env.lockstep.enqueue(queue, jobs)
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  }
  expect(recorder.runs).toHaveLength(300)
  // The worker that has done all this is not in the snapshot.
  expect(await seen()).toEqual(before)
})

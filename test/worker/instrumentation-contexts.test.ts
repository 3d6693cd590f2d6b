import { AsyncLocalStorage } from 'node:async_hooks'
import { expect, test } from 'vitest'
import { type Instrumentation, Lockstep, type LockstepOptions, type PerformedRound } from '../../src/index.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const where = new AsyncLocalStorage<string>()

function lockstepWith(instrumentation: Instrumentation[], options: Partial<LockstepOptions> = {}): Lockstep {
  const { connectionString, logger } = env
  const lockstep = new Lockstep({ connectionString, logger, instrumentation, ...options })
  env.later(() => lockstep.close())
  return lockstep
}

/** Runs operations inside its name. */
function context(name: string): Instrumentation {
  const inside = { within: (work: () => unknown) => where.run(`${where.getStore() ?? ''}${name}`, work) }
  return { enqueue: () => inside, perform: () => inside }
}

const failures = () => env.warnings.filter(({ message }) => message === 'instrumentation failed')

test('a push and a handler run in the contexts of instruments, the first outermost', async () => {
  const seen: (string | undefined)[] = []
  const queue = env.queue({
    async perform() {
      await new Promise(setImmediate)
      seen.push(where.getStore())
    },
  })
  const lockstep = lockstepWith([context('a'), {}, context('b')], {
    middleware: [
      (call, next) => {
        seen.push(where.getStore())
        return next(call.jobs)
      },
    ],
  })
  const worker = env.create({ queues: [queue] }, lockstep)
  const completed = next(worker, 'completed')
  await worker.start()
  await lockstep.enqueue(queue, { id: 'x' })
  await completed
  expect(seen).toEqual(['ab', 'ab'])
  expect(where.getStore()).toBeUndefined()
})

test.each<[string, (work: () => unknown) => unknown, number]>([
  ['does not call its work', () => {}, 0],
  ['calls it too late', (work) => new Promise(setImmediate).then(work), 0],
  ['calls it twice', (work) => [work(), work()], 0],
  [
    'throws before it calls it',
    () => {
      throw new Error('before')
    },
    1,
  ],
  [
    'throws after it has called it',
    (work) => {
      work()
      throw new Error('after')
    },
    1,
  ],
  ['fails later', async (work) => Promise.reject(await work()), 0],
])('an operation happens once if an instrument %s', async (_, within, failed) => {
  const lockstep = lockstepWith([{ enqueue: () => ({ within }) }])
  let calls = 0
  const counting = lockstepWith([{ enqueue: () => ({ within }) }], {
    middleware: [
      (call, next) => {
        calls += 1
        return next(call.jobs)
      },
    ],
  })
  const queue = env.queue({})
  expect(await counting.enqueue(queue, { id: 'a' })).toBe(1)
  expect(calls).toBe(1)
  await expect(lockstep.enqueue(queue, { id: '' })).rejects.toMatchObject({ code: 'LOCKSTEP_BAD_JOB' })
  expect(failures()).toHaveLength(failed * 2)
})

test('headers of instruments go with every payload that has none of their names, in a transaction too', async () => {
  const lockstep = lockstepWith(
    [
      { headers: () => (where.getStore() ? { trace: where.getStore()!, more: '1' } : undefined) },
      { headers: () => ({ more: '2', other: '3' }) },
    ],
    { middleware: [(call, next) => next([...call.jobs, { id: 'made', payload: 'by a middleware' }])] },
  )
  const queue = env.queue({})
  const tx = await env.session()
  await tx.query('BEGIN')
  const jobs = [
    { id: 'plain' },
    { id: 'with', headers: { own: 1 } },
    { id: 'has', headers: { trace: 'mine' } },
    { id: 'full', headers: { own: 'x'.repeat(16_370) } },
  ]
  await where.run('here', () => lockstep.enqueue(queue, jobs, { tx }))
  await tx.query('COMMIT')
  const found = await lockstep.find(queue)
  const headers = Object.fromEntries(found.items.map(({ id, payloads }) => [id, payloads[0]!.headers]))
  const added = { trace: 'here', more: '1', other: '3' }
  expect(headers).toEqual({
    plain: added,
    made: added,
    with: { own: 1, ...added },
    has: { trace: 'mine' },
    full: { own: 'x'.repeat(16_370) },
  })
})

test.each([
  ['no text', () => ({ trace: 1 }) as never],
  ['text that Postgres can’t hold', () => ({ trace: '\u0000' })],
  [
    'nothing but an error',
    () => {
      throw new Error('none')
    },
  ],
])('headers that are %s are left out, and told', async (_, headers) => {
  const lockstep = lockstepWith([{ headers }])
  const queue = env.queue({})
  await lockstep.enqueue(queue, { id: 'a' })
  expect((await lockstep.find(queue)).items[0]!.payloads[0]!.headers ?? null).toBeNull()
  expect(failures()).toHaveLength(1)
})

test('a round tells when it was due, how long it has waited, its payloads and their headers', async () => {
  const rounds: PerformedRound[] = []
  const merged: number[] = []
  const lockstep = lockstepWith([
    {
      perform: (batch) => void rounds.push(...batch.rounds),
      complete: (batch) => void merged.push(...batch.rounds.map(({ payloads }) => payloads)),
    },
  ])
  const queue = env.queue({
    // What the handler does to its list changes no count.
    perform(batch) {
      for (const payloads of batch.values()) (payloads as unknown[]).splice(0)
    },
  })
  await lockstep.enqueue(queue, [
    { id: 'a', payload: 1, performIn: Date.now() - 60_000 },
    { id: 'a', payload: 2, headers: { trace: 'x' } },
    { id: 'a', payload: 3 },
  ])
  const worker = env.create({ queues: [queue] }, lockstep)
  const completed = next(worker, 'completed')
  await worker.start()
  await completed
  const [job] = rounds
  expect(rounds).toHaveLength(1)
  expect(job).toMatchObject({ payloads: 3, headers: [null, { trace: 'x' }, null] })
  expect(job!.performIn.getTime()).toBeLessThan(Date.now() - 59_000)
  expect(job!.waited).toBeGreaterThan(59_000)
  expect(job!.waited).toBeLessThan(600_000)
  expect(merged).toEqual([3])
})

test('an instrument hears of a Lockstep and its workers while they are there', async () => {
  const heard: string[] = []
  const workers: { shards: number; slots: number; running: number; processId: number }[] = []
  const instrument: Instrumentation = {
    open: ({ lockstep }) => void heard.push(lockstep instanceof Lockstep ? 'open' : 'wrong'),
    close: () => void heard.push('close'),
    start: ({ worker }) => {
      heard.push(`start ${worker.queues}`)
      workers.push(worker)
    },
    stop: () => void heard.push('stop'),
  }
  const lockstep = lockstepWith([instrument])
  const gate = new Gate()
  const queue = env.queue({ shards: 3, perform: () => gate.opened })
  const worker = env.create({ queues: [queue], slots: 4 }, lockstep)
  await worker.start()
  await lockstep.enqueue(queue, { id: 'a' })
  await eventually(() => expect(workers).toMatchObject([{ shards: 3, slots: 4, running: 1 }]))
  expect(workers[0]!.processId).toBe(worker.processId)
  gate.open()
  await worker.stop()
  expect(workers).toMatchObject([{ shards: 0, running: 0 }])
  await lockstep.close()
  await lockstep.close()
  expect(heard).toEqual(['open', `start ${queue.name}`, 'stop', 'close'])
})

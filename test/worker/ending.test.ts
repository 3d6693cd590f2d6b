import { describe, expect, test, vi } from 'vitest'
import {
  type Batch,
  type Death,
  Discard,
  type PerformContext,
  type Queue,
  RetryIn,
  Snooze,
  TimeoutError,
  type WorkerEvents,
} from '../../src/index.ts'
import { eventually, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const AN_HOUR = 3_600

type Tx = { query(text: string): Promise<unknown> }
type Perform = (batch: Batch, context: PerformContext & { readonly tx?: Tx }) => unknown

const KINDS: [string, (perform: Perform) => Queue][] = [
  ['plain', (perform) => env.queue({ shards: 1, batchSize: 4, perform })],
  ['transactional', (perform) => env.transactional({ shards: 1, batchSize: 4, perform })],
]

/** Works until the event comes, and resolves to it. */
async function outcomeOf<Event extends keyof WorkerEvents>(
  queue: Queue,
  event: Event,
  payloads: readonly unknown[] = ['v'],
) {
  await env.lockstep.enqueue(
    queue,
    payloads.map((payload, score) => ({ id: 'a', payload, score })),
  )
  const worker = env.create({ queues: [queue] })
  const others = vi.fn()
  for (const other of ['failed', 'died', 'dropped', 'snoozed', 'completed'] as const)
    if (other !== event) worker.on(other, others)
  const happened = next(worker, event)
  await worker.start()
  return { worker, others, event: await happened }
}

async function dead(queue: Queue): Promise<unknown[]> {
  const { items } = await env.lockstep.findDead(queue)
  return items.map(({ payload, error }) => [payload, error?.split('\n')[0]])
}

function throwing(error: () => unknown): Perform {
  return () => {
    throw error()
  }
}

describe.each(KINDS)('in a %s queue', (_, define) => {
  test('Discard: all payloads go to the morgue at once, with the reason and its cause', async () => {
    const cause = new Error('the cause')
    const queue = define(throwing(() => new Discard('the order is gone', { cause })))
    const { worker, event, others } = await outcomeOf(queue, 'failed', ['v', 'w'])
    expect(event).toMatchObject({ id: 'a', error: expect.any(Discard), retryCount: 0, retryIn: null })
    expect(others.mock.calls.map(([told]) => told.payload)).toEqual(['v', 'w'])
    expect(await dead(queue)).toEqual([
      ['v', 'Discard: the order is gone'],
      ['w', 'Discard: the order is gone'],
    ])
    const { items } = await env.lockstep.findDead(queue)
    expect(items[0]!.error).toContain('caused by: Error: the cause')
    expect(await env.jobs(queue)).toBe(0)
    await worker.stop()
    const [stats] = (await env.lockstep.stats()).queues.filter((one) => one.queue === queue.name)
    expect(stats).toMatchObject({ failed: 1, processed: 0 })
  })

  test('Discard without the morgue: the payloads are dropped, and that is told', async () => {
    const queue = define(throwing(() => new Discard('a double', { morgue: false })))
    const { event, others } = await outcomeOf(queue, 'dropped')
    expect(event).toMatchObject({ queue: queue.name, id: 'a', error: { message: 'a double' } })
    expect(others).not.toHaveBeenCalled()
    expect(await env.jobs(queue)).toBe(0)
    expect(await dead(queue)).toEqual([])
  })

  test('Snooze: the round comes later, as if it had not begun', async () => {
    const queue = define(throwing(() => new Snooze(AN_HOUR)))
    const { event, others } = await outcomeOf(queue, 'snoozed')
    expect(event).toMatchObject({ queue: queue.name, id: 'a', seconds: AN_HOUR, error: expect.any(Snooze) })
    expect(others).not.toHaveBeenCalled()
    const job = (await env.job(queue, 'a'))!
    expect(job).toMatchObject({ retry_count: -1, error: null, claimed_by: null, crashes: 0 })
    expect(job.perform_ms).toBeGreaterThan(Date.now() + (AN_HOUR - 60) * 1000)
  })

  test('RetryIn: a failure with a time of its own, and its cause', async () => {
    let runs = 0
    const queue = define(
      throwing(() => {
        runs += 1
        return new RetryIn(runs === 1 ? 0 : AN_HOUR, { cause: new Error('busy') })
      }),
    )
    await outcomeOf(queue, 'failed')
    await eventually(async () => expect(await env.job(queue, 'a')).toMatchObject({ retry_count: 1 }))
    const job = (await env.job(queue, 'a'))!
    expect(job.error).toMatch(/^RetryIn: again in 3600 s: busy\n/)
    expect(job.error).toContain('caused by: Error: busy')
    expect(job.perform_ms).toBeGreaterThan(Date.now() + (AN_HOUR - 60) * 1000)
  })

  test('by context.fail for each id of a batch; the others succeed', async () => {
    const queue = define((_, context) => {
      context.fail('discarded', new Discard('no'))
      context.fail('dropped', new Discard('no', { morgue: false }))
      context.fail('snoozed', new Snooze(AN_HOUR))
    })
    await env.lockstep.enqueue(
      queue,
      ['fine', 'discarded', 'dropped', 'snoozed'].map((id) => ({ id })),
    )
    const worker = env.create({ queues: [queue], slots: 1 })
    const events: string[] = []
    for (const name of ['died', 'dropped', 'snoozed'] as const)
      worker.on(name, ({ id }: { id: string }) => events.push(`${name}: ${id}`))
    worker.on('completed', ({ ids }) => events.push(`completed: ${ids}`))
    await worker.start()
    await eventually(() =>
      expect(events.toSorted()).toEqual([
        'completed: fine',
        'died: discarded',
        'dropped: dropped',
        'snoozed: snoozed',
      ]),
    )
    expect(await env.jobs(queue)).toBe(1)
    expect(await env.job(queue, 'snoozed')).toMatchObject({ retry_count: -1, claimed_by: null })
  })

  test('what says so may be of another copy of the package', async () => {
    const other = Object.assign(new Error('theirs'), {
      [Symbol.for('pg-lockstep.ending')]: { end: 'discard', morgue: true },
    })
    const queue = define(throwing(() => other))
    await outcomeOf(queue, 'died')
    expect(await dead(queue)).toEqual([['v', 'Error: theirs']])
  })

  test('seconds that are none fail the round like any mistake', async () => {
    const queue = define(throwing(() => new Snooze(Number.NaN)))
    await outcomeOf(queue, 'failed')
    expect((await env.job(queue, 'a'))!.error).toMatch(
      /Snooze: seconds must be a finite number from 0 on, not NaN/,
    )
  })
})

test('a transactional handler that discards has written nothing, unless others of its batch succeed', async () => {
  await env.sql('CREATE TABLE written (id text)')
  const queue = env.transactional({
    shards: 1,
    batchSize: 2,
    perform: async (batch, { tx, fail }) => {
      for (const id of batch.keys()) await tx.query('INSERT INTO written VALUES ($1)', [id])
      for (const id of batch.keys()) if (id.startsWith('discarded')) fail(id, new Discard('no'))
    },
  })
  const worker = env.create({ queues: [queue], slots: 1 })
  await env.lockstep.enqueue(queue, [{ id: 'discarded 1' }, { id: 'discarded 2' }])
  await worker.start()
  await eventually(async () => expect(await dead(queue)).toHaveLength(2))
  expect(await env.sql('SELECT * FROM written')).toEqual([])
  await env.lockstep.enqueue(queue, [{ id: 'discarded 3' }, { id: 'fine' }])
  await eventually(async () => expect(await dead(queue)).toHaveLength(3))
  expect(await env.jobs(queue)).toBe(0)
})

test('a round whose signal was aborted by a stop is given back, whatever its handler says', async () => {
  const queue = env.queue({
    perform: (_, { signal }) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Discard('stopped')))),
  })
  const worker = await env.work({ queues: [queue] })
  const started = next(worker, 'started')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await started
  await worker.stop()
  expect(await env.job(queue, 'a')).toMatchObject({ retry_count: -1, claimed_by: null })
  expect(await dead(queue)).toEqual([])
})

describe('what depends on the job', () => {
  test('retryIn gets the error and the job', async () => {
    const asked = vi.fn(() => AN_HOUR)
    const thrown = new Error('no')
    const queue = env.queue({ retryIn: asked, perform: throwing(() => thrown) })
    await outcomeOf(queue, 'failed', ['v', 'w'])
    expect(asked).toHaveBeenCalledExactlyOnceWith(
      0,
      thrown,
      expect.objectContaining({ id: 'a', payloads: ['v', 'w'], scores: [0, 1], retryCount: -1 }),
    )
  })

  test('maxRetryCount may, such as by headers; if it throws, the default applies', async () => {
    const queue = env.queue({
      retryIn: () => AN_HOUR,
      maxRetryCount: ({ headers: [first] }) => (first as { retries: number }).retries,
      perform: throwing(() => new Error('no')),
    })
    await env.lockstep.enqueue(queue, [
      { id: 'once', headers: { retries: 0 } },
      { id: 'often', headers: { retries: 5 } },
      { id: 'unknown' },
    ])
    const failed: Record<string, number | null> = {}
    const worker = env.create({ queues: [queue] })
    worker.on('failed', ({ id, retryIn }) => {
      failed[id] = retryIn
    })
    await worker.start()
    await eventually(() => expect(failed).toEqual({ once: null, often: AN_HOUR, unknown: AN_HOUR }))
  })

  test('timeout may: of a batch, the longest counts', async () => {
    const queue = env.queue({
      retryIn: () => AN_HOUR,
      shards: 1,
      batchSize: 2,
      timeout: ({ payloads: [ms] }) => (ms === null ? undefined : (ms as number)),
      perform: (batch, { signal }) =>
        new Promise((resolve) => {
          if (batch.has('endless')) resolve(undefined)
          signal.addEventListener('abort', () => resolve(undefined))
        }),
    })
    const worker = await env.work({ queues: [queue], slots: 1 })
    const errors: unknown[] = []
    worker.on('failed', ({ error }) => errors.push(error))
    await env.lockstep.enqueue(queue, [
      { id: 'short', payload: 10 },
      { id: 'long', payload: 120 },
    ])
    await eventually(() => expect(errors).toHaveLength(2))
    expect(errors).toEqual([new TimeoutError(120), new TimeoutError(120)])
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(queue, [
      { id: 'endless', payload: null },
      { id: 'other', payload: 1 },
    ])
    await completed
  })

  test.each([[0], [Number.NaN], ['soon']])(
    'a timeout of %o fails the batch before its handler',
    async (ms) => {
      const perform = vi.fn()
      const queue = env.queue({ retryIn: () => AN_HOUR, timeout: () => ms as number, perform })
      await outcomeOf(queue, 'failed')
      expect((await env.job(queue, 'a'))!.error).toMatch(/timeout must be a whole number from 1/)
      expect(perform).not.toHaveBeenCalled()
    },
  )
})

describe('onDeath', () => {
  const deaths: Death[] = []
  const onDeath = async (death: Death) => {
    await new Promise((resolve) => setTimeout(resolve, 50))
    deaths.push(death)
  }

  test('is called with each payload that goes to the morgue, and stop() waits for it', async () => {
    deaths.length = 0
    const error = new Error('no')
    const queue = env.queue({ maxRetryCount: 0, perform: throwing(() => error), onDeath })
    await env.lockstep.enqueue(queue, { id: 'b', payload: 'x', score: 7, headers: { of: 'x' } })
    const worker = env.create({ queues: [queue], shutdownTimeout: 2_000 })
    const died = next(worker, 'died')
    await worker.start()
    await died
    await worker.stop()
    expect(deaths).toEqual([{ id: 'b', payload: 'x', score: 7, headers: { of: 'x' }, error }])
  })

  test('is called for each payload of a discarded round', async () => {
    deaths.length = 0
    const queue = env.queue({ perform: throwing(() => new Discard('no')), onDeath })
    await outcomeOf(queue, 'failed', ['v', 'w'])
    await eventually(() => expect(deaths.map(({ payload }) => payload)).toEqual(['v', 'w']))
  })

  test('may hang, which holds up a stop for a while, and is logged', { tags: 'slow' }, async () => {
    const queue = env.queue({
      maxRetryCount: 0,
      perform: throwing(() => new Error('no')),
      onDeath: () => new Promise(() => {}),
    })
    const { worker } = await outcomeOf(queue, 'died')
    expect(await worker.stop()).toBe(true)
    expect(JSON.stringify(env.warnings)).toContain('calls of `onDeath` have not ended')
  })

  test('may fail, which is logged', async () => {
    const queue = env.queue({
      maxRetryCount: 0,
      perform: throwing(() => new Error('no')),
      onDeath: () => Promise.reject(new Error('no mail server')),
    })
    const { worker } = await outcomeOf(queue, 'died')
    await worker.stop()
    expect(env.warnings).toContainEqual({
      fields: expect.objectContaining({ id: 'a', error: expect.stringMatching(/no mail server/) }),
      message: '`onDeath` failed: the payload is in the morgue all the same',
    })
    expect(await dead(queue)).toHaveLength(1)
  })
})

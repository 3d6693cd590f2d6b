import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { ServerMiddleware } from '../../src/index.ts'
import { eventually, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

test('R14: server middleware runs around perform, the first added outermost', async () => {
  const steps: string[] = []
  const step =
    (name: string): ServerMiddleware =>
    async ({ queue, batch, context }, perform) => {
      steps.push(`${name} before ${queue.name} ${[...batch.keys()]} ${context.jobs.get('a')!.retryCount}`)
      await perform()
      steps.push(`${name} after`)
    }
  const queue = env.queue({ perform: () => void steps.push('perform') })
  const worker = await env.work({ queues: [queue], middleware: [step('outer'), step('inner')] })
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await completed
  expect(steps).toEqual([
    `outer before ${queue.name} a -1`,
    `inner before ${queue.name} a -1`,
    'perform',
    'inner after',
    'outer after',
  ])
})

test('R14: one that swallows the error makes it a success', async () => {
  const swallow: ServerMiddleware = (_, perform) => perform().catch(() => {})
  const queue = env.queue({ perform: () => Promise.reject(new Error('no')) })
  const worker = await env.work({ queues: [queue], middleware: [swallow] })
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await completed
  expect(await env.job(queue, 'a')).toBeUndefined()
})

test('R14: one that throws after perform makes it a failure', async () => {
  const thrower: ServerMiddleware = async (_, perform) => {
    await perform()
    throw new Error('afterwards')
  }
  const queue = env.queue({ retryIn: () => 3600, perform() {} })
  const worker = await env.work({ queues: [queue], middleware: [thrower] })
  const failed = next(worker, 'failed')
  await env.lockstep.enqueue(queue, { id: 'a' })
  expect(await failed).toMatchObject({ id: 'a', error: new Error('afterwards') })
  expect(await env.job(queue, 'a')).toMatchObject({ retry_count: 0 })
})

test('R14: one that does not go on to perform makes it a success without it', async () => {
  const queue = env.queue({ perform: () => Promise.reject(new Error('not reached')) })
  const worker = await env.work({ queues: [queue], middleware: [() => {}] })
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await completed
})

test.each([false, true])(
  'P1: a batch ends when its handler has, though a middleware did not wait for it (transactional: %s)',
  async (transactional) => {
    const hasty: ServerMiddleware = (_, perform) => {
      perform().catch(() => {})
    }
    let running = 0
    const most: number[] = []
    const perform = async () => {
      running += 1
      most.push(running)
      await sleep(150)
      running -= 1
      if (most.length === 1) throw new Error('late')
    }
    const queue = transactional ? env.transactional({ perform }) : env.queue({ perform })
    const worker = await env.work({ queues: [queue], middleware: [hasty] })
    const failed = next(worker, 'failed')
    const completed = next(worker, 'completed')
    const started = next(worker, 'started')
    await env.lockstep.enqueue(queue, { id: 'a', payload: 1 })
    await started
    await env.lockstep.enqueue(queue, { id: 'a', payload: 2 })
    expect(await failed).toMatchObject({ error: new Error('late') })
    await completed
    expect(most).toEqual([1, 1])
  },
)

test('P1: a middleware can’t have the handler run twice at once; once more after it, it can', async () => {
  let runs = 0
  const queue = env.queue({
    async perform() {
      runs += 1
      await sleep(50)
    },
  })
  const both: ServerMiddleware = (_, perform) => Promise.all([perform(), perform()])
  const impatient = await env.work({ queues: [queue], middleware: [both] })
  const failed = next(impatient, 'failed')
  await env.lockstep.enqueue(queue, { id: 'a' })
  const message = 'a middleware called next() again while the handler was running'
  expect(await failed).toMatchObject({ error: new Error(message) })
  await impatient.stop()
  expect(runs).toBe(1)

  const again: ServerMiddleware = async (_, perform) => {
    await perform()
    await perform()
  }
  const worker = env.create({ queues: [queue], middleware: [again] })
  const completed = next(worker, 'completed')
  await worker.start()
  await completed
  expect(runs).toBe(3)
})

test.each([false, true])(
  'P1: after its batch has ended, a middleware can’t begin the handler any more (transactional: %s)',
  async (transactional) => {
    let runs = 0
    const perform = () => {
      runs += 1
    }
    const refused: Promise<unknown>[] = []
    const forgetful: ServerMiddleware = (_, perform) => {
      const late = async () => {
        await once(worker, 'completed')
        await perform()
      }
      refused.push(late().catch((error) => error.message))
    }
    const queue = transactional ? env.transactional({ perform }) : env.queue({ perform })
    const worker = await env.work({ queues: [queue], middleware: [forgetful] })
    const completed = next(worker, 'completed')
    await env.lockstep.enqueue(queue, { id: 'a' })
    await completed
    const message = 'a middleware called next() after its batch had ended: return or await what it gives'
    expect(await Promise.all(refused)).toEqual([message])
    expect(runs).toBe(0)
  },
)

test.each<[string, ServerMiddleware]>([
  ['at once', (_, perform) => void perform()],
  [
    'after a while',
    async (_, perform) => {
      void perform()
      await sleep(5)
    },
  ],
])(
  'R14: one that does not await perform, and ends %s, ends no process with the handler’s error',
  async (_, middleware) => {
    const queue = env.queue({
      retryIn: () => 3600,
      perform: () => Promise.reject(new Error('the handler’s')),
    })
    const worker = await env.work({ queues: [queue], middleware: [middleware] })
    const failed = next(worker, 'failed')
    await env.lockstep.enqueue(queue, { id: 'a' })
    expect((await failed).error).toMatchObject({ message: 'the handler’s' })
  },
)

test('a listener that throws does so outside the worker: the job is completed, and the next ones too', async () => {
  const queue = env.queue({ perform() {} })
  const worker = await env.work({ queues: [queue] })
  const uncaught = takeUncaught()
  try {
    const refused: unknown[] = []
    worker.on('refused', (event) => refused.push(event))
    worker.once('started', () => {
      throw new Error('listening to a start')
    })
    worker.once('completed', () => {
      throw new Error('listening to an end')
    })
    for (const id of ['a', 'b']) {
      await env.lockstep.enqueue(queue, { id })
      await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    }
    await eventually(() => expect(uncaught.errors).toHaveLength(2))
    expect(uncaught.errors).toEqual([new Error('listening to a start'), new Error('listening to an end')])
    expect(refused).toEqual([])
  } finally {
    uncaught.restore()
  }
})

/** Takes uncaught exceptions from the test runner, for which they mean a failed run. */
function takeUncaught() {
  const errors: unknown[] = []
  const others = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException')
  process.on('uncaughtException', (error) => errors.push(error))
  return {
    errors,
    restore() {
      process.removeAllListeners('uncaughtException')
      for (const other of others) process.on('uncaughtException', other)
    },
  }
}

import { describe, expect, test } from 'vitest'
import type { Queue, WorkerOptions } from '../../src/index.ts'
import { next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

const SECRET = 'card 4111'
class CardError extends Error {}
const cardError = () => new CardError(`refused: ${SECRET}`)

/** What is stored of an error that a handler throws: with the job, and in the morgue. */
async function stored(formatError: WorkerOptions['formatError'], thrown: unknown = cardError()) {
  const perform = () => {
    throw thrown
  }
  const queues = [env.queue({ perform, retryIn: () => 3_600 }), env.queue({ perform, maxRetryCount: 0 })]
  const [failing, dying] = queues as [Queue, Queue]
  const worker = env.create({ queues, formatError })
  const told = [next(worker, 'failed', ({ queue }) => queue === failing.name), next(worker, 'died')]
  await worker.start()
  for (const queue of queues) await env.lockstep.enqueue(queue, { id: 'a' })
  await Promise.all(told)
  const [dead] = await env.sql<{ error: string }>('SELECT error FROM lockstep.dead WHERE queue = $1', [
    dying.name,
  ])
  return [(await env.job(failing, 'a'))?.error, dead!.error]
}

describe('R6 R7: what is stored of an error', () => {
  test('is its stack, unless `formatError` makes something else of it', async () => {
    for (const text of await stored(undefined)) expect(text).toMatch(/refused: card 4111\n\s+at /)
    const redact = (error: unknown) => (error as Error).message.replace(/\d+/g, '…')
    expect(await stored(redact)).toEqual(['refused: card …', 'refused: card …'])
  })

  test('is bounded, and without what Postgres can’t hold', async () => {
    for (const text of await stored(() => `a\u0000b\ud800${'x'.repeat(100_000)}`)) {
      expect(text).toMatch(/^a\ufffdb\ufffdx+…$/)
      expect(text!.length).toBeLessThanOrEqual(8_000)
    }
  })

  const failing: [string, (error: unknown) => string][] = [
    [
      'throws',
      (error) => {
        throw new TypeError(`no text for ${(error as Error).message}`)
      },
    ],
    ['returns no text', (error) => ({ text: (error as Error).message }) as never],
    ['returns a promise of one', (async (error: Error) => error.message) as never],
    ['rejects', (async (error: Error) => Promise.reject(error)) as never],
  ]

  test.each(failing)(
    'is its class alone where `formatError` %s, and that is logged',
    async (_, formatError) => {
      const told = 'CardError (`formatError` failed, so nothing else is told of it)'
      expect(await stored(formatError)).toEqual([told, told])
      const logged = env.warnings.filter(({ message }) => message.includes('`formatError` failed'))
      expect(logged).toHaveLength(2)
      expect(logged[0]!.fields).toMatchObject({
        kind: 'CardError',
        problem: expect.stringMatching(/threw TypeError at|no text/),
      })
      expect(JSON.stringify(env.warnings)).not.toContain(SECRET)
    },
  )

  test('is never lost, whatever was thrown', async () => {
    const hostile = new Proxy(
      {},
      {
        get() {
          throw new Error(SECRET)
        },
      },
    )
    const boom = () => {
      throw hostile
    }
    for (const text of await stored(boom, null)) expect(text).toMatch(/^object \(/)
    // What can't be read was replaced by an error.
    for (const text of await stored(boom, hostile)) expect(text).toMatch(/^Error \(/)
    for (const text of await stored(boom, SECRET)) expect(text).toMatch(/^string \(/)
  })
})

test('`formatError` must be a function', () => {
  const queue = env.queue({ perform() {} })
  const create = () => env.create({ queues: [queue], formatError: 'short' as never })
  expect(create).toThrow('worker: formatError must be a function, not "short"')
})

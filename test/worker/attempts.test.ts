import { describe, expect, test } from 'vitest'
import type { FailedAttempt, Queue } from '../../src/index.ts'
import { eventually, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

async function attemptsOf(queue: Queue, id = 'a'): Promise<readonly FailedAttempt[]> {
  const { items } = await env.lockstep.find(queue, { ids: [id], state: 'waiting' }, { attempts: true })
  return items[0]?.attempts ?? []
}

async function deadAttempts(queue: Queue): Promise<FailedAttempt[][]> {
  const { items } = await env.lockstep.findDead(queue, {}, { attempts: true })
  return items.map(({ attempts }) => [...attempts!])
}

const tell = ({ kind, retryCount, error }: FailedAttempt) => `${kind} ${retryCount} ${error?.split('\n')[0]}`

const AN_HOUR = () => 3_600

describe('what a worker tells of failed attempts', () => {
  test('R7: a dead payload has each, with the stack and the causes of its error', async () => {
    let runs = 0
    const perform = () => {
      runs += 1
      throw new Error(`run ${runs}`, { cause: new Error(`reason ${runs}`) })
    }
    const queue = env.queue({ perform, maxRetryCount: 2 })
    await env.lockstep.enqueue(queue, { id: 'a' })
    const worker = env.create({ queues: [queue] })
    const died = next(worker, 'died')
    await worker.start()
    await died
    const [attempts] = (await deadAttempts(queue)) as [FailedAttempt[]]
    expect(attempts.map(tell)).toEqual([2, 1, 0].map((n) => `failure ${n} Error: run ${n + 1}`))
    for (const [place, { error }] of attempts.entries()) {
      expect(error).toMatch(/^Error: run \d\n\s+at /)
      expect(error).toMatch(new RegExp(`\ncaused by: Error: reason ${3 - place}\n\\s+at `))
    }
  })

  test.each([
    ['plain', false],
    ['transactional', true],
  ])('R16: a timeout is one, in a %s queue', async (_, transactional) => {
    const perform = (__: unknown, { signal }: { readonly signal: AbortSignal }) =>
      new Promise<void>((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(new Error('stopped')), { once: true }),
      )
    const options = { perform, timeout: 50, retryIn: AN_HOUR, shards: 1 }
    const queue = transactional ? env.transactional(options) : env.queue(options)
    await env.lockstep.enqueue(queue, { id: 'a' })
    await env.work({ queues: [queue] })
    await eventually(async () =>
      expect((await attemptsOf(queue)).map(tell)).toEqual([
        "timeout 0 TimeoutError: the handler ran longer than the queue's timeout of 50 ms",
      ]),
    )
  })

  test('that commit with the handler’s writes for other ids of the batch', async () => {
    const queue = env.transactional({
      shards: 1,
      batchSize: 3,
      retryIn: AN_HOUR,
      perform(_batch, { fail }) {
        fail('a', new Error('of a'))
        fail('b', new Error('of b'))
      },
    })
    await env.lockstep.enqueue(
      queue,
      ['a', 'b', 'c'].map((id) => ({ id })),
    )
    await env.work({ queues: [queue] })
    await eventually(async () => expect(await env.jobs(queue)).toBe(2))
    expect((await attemptsOf(queue, 'a')).map(tell)).toEqual(['failure 0 Error: of a'])
    expect((await attemptsOf(queue, 'b')).map(tell)).toEqual(['failure 0 Error: of b'])
  })

  test('R10: a transaction whose connection is lost is a crash, and too many of them a failure', async () => {
    const queue = env.transactional({
      maxCrashes: 2,
      maxRetryCount: 0,
      async perform(_batch, { tx }) {
        await tx.query('SELECT pg_terminate_backend(pg_backend_pid())')
      },
    })
    await env.lockstep.enqueue(queue, { id: 'a' })
    await env.work({ queues: [queue] })
    await eventually(async () => expect(await deadAttempts(queue)).toHaveLength(1))
    const [attempts] = (await deadAttempts(queue)) as [FailedAttempt[]]
    expect(attempts.map(({ kind }) => kind)).toEqual(['failure', 'crash', 'crash'])
    expect(attempts[0]!.error).toContain('died 2 times in a row')
  })

  test('holds nothing that `formatError` takes out', async () => {
    const perform = () => {
      throw new Error('card 4111')
    }
    const queue = env.queue({ perform, maxRetryCount: 1 })
    await env.lockstep.enqueue(queue, { id: 'a' })
    const worker = env.create({ queues: [queue], formatError: () => 'redacted' })
    const died = next(worker, 'died')
    await worker.start()
    await died
    const [attempts] = (await deadAttempts(queue)) as [FailedAttempt[]]
    expect(attempts.map(({ error }) => error)).toEqual(['redacted', 'redacted'])
    expect(JSON.stringify(await env.sql('SELECT * FROM lockstep.morgue'))).not.toContain('card 4111')
  })
})

import { SpanStatusCode } from '@opentelemetry/api'
import { expect, test } from 'vitest'
import { Discard, Snooze } from '../../src/index.ts'
import { span } from './spans.ts'
import { useTracedWorkers } from './traced-workers.ts'

const { env, traced, perform, working } = useTracedWorkers()

class OrderError extends Error {
  override readonly name = 'OrderError'
}

test('what a handler threw, and why a push failed, is recorded', async () => {
  const lockstep = traced()
  const queue = working({
    retryIn: () => 600,
    perform() {
      throw new OrderError('no such order')
    },
  })
  await expect(lockstep.enqueue(queue, { id: '' })).rejects.toThrow()
  expect(span(`enqueue ${queue.name}`)).toMatchObject({
    status: { code: SpanStatusCode.ERROR },
    attributes: { 'error.type': 'LOCKSTEP_BAD_JOB' },
  })
  await env.lockstep.enqueue(queue, { id: 'a' })
  await perform(lockstep, queue)
  const run = span(`perform ${queue.name}`)
  expect(run.status).toEqual({ code: SpanStatusCode.ERROR, message: 'no such order' })
  expect(run.attributes).toMatchObject({ 'error.type': 'OrderError' })
  expect(run.events).toMatchObject([
    {
      name: 'exception',
      attributes: {
        'exception.type': 'OrderError',
        'exception.message': 'no such order',
        'exception.stacktrace': expect.stringContaining('otel-errors.test.ts'),
      },
    },
  ])
})

test('of a batch, each error is recorded once', async () => {
  const lockstep = traced()
  const queue = working({
    batchSize: 5,
    retryIn: () => 600,
    perform(_, { fail }) {
      fail('a', new OrderError('a'))
      throw new TypeError('the others')
    },
  })
  await env.lockstep.enqueue(queue, [{ id: 'a' }, { id: 'b' }, { id: 'c' }])
  await env.lockstep.reshard(queue, 1)
  await perform(lockstep, queue)
  const run = span(`perform ${queue.name}`)
  expect(run.events.map(({ attributes }) => attributes?.['exception.message'])).toEqual(['a', 'the others'])
  expect(run.attributes).not.toHaveProperty('messaging.pg_lockstep.job.id')
})

test.each([
  ['a secret', () => 'left out', 'left out'],
  ['no text', () => 7 as never, 'OrderError'],
  [
    'something that can’t be formatted',
    () => {
      throw new Error('no')
    },
    'OrderError',
  ],
])('formatError says what is recorded of %s', async (_, formatError, message) => {
  const lockstep = traced({ formatError })
  const queue = working({
    retryIn: () => 600,
    perform() {
      throw new OrderError('secret')
    },
  })
  await env.lockstep.enqueue(queue, { id: 'a' })
  await perform(lockstep, queue)
  const run = span(`perform ${queue.name}`)
  expect(run.status.message).toBe(message)
  expect(run.events[0]!.attributes).toEqual({ 'exception.type': 'OrderError', 'exception.message': message })
})

test.each([
  [new Snooze(600), 'snoozed'],
  [new Discard('drop', { morgue: false }), 'dropped'],
])('a handler that throws %s has not failed', async (ending, event) => {
  const lockstep = traced()
  const queue = working({
    perform() {
      throw ending
    },
  })
  await env.lockstep.enqueue(queue, { id: 'a' })
  await perform(lockstep, queue)
  const run = span(`perform ${queue.name}`)
  expect(run.status.code).toBe(SpanStatusCode.UNSET)
  expect(run.events.map(({ name }) => name)).toEqual([event])
  expect(run.attributes).not.toHaveProperty('error.type')
})

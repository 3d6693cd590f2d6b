import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { context, propagation, ROOT_CONTEXT, SpanKind } from '@opentelemetry/api'
import { expect, test } from 'vitest'
import type { Lockstep, PayloadHeaders, Queue } from '../../src/index.ts'
import { otel } from '../../src/telemetry/otel.ts'
import { eventually } from '../support/worker-environment.ts'
import { drawn, inSpan, span, spans, strict } from './spans.ts'
import { useTracedWorkers } from './traced-workers.ts'

const { env, traced, perform, working } = useTracedWorkers()

/** Answers requests by pushing a job in a transaction. */
async function serve(lockstep: Lockstep, queue: Queue): Promise<string> {
  const server = createServer(async (request, response) => {
    const from = propagation.extract(ROOT_CONTEXT, request.headers)
    await context.with(from, () =>
      inSpan(
        'POST /orders',
        async () => {
          const tx = await env.pool.connect()
          await tx.query('BEGIN')
          await lockstep.enqueue(queue, { id: 'order-1', payload: { card: '4111' } }, { tx })
          await tx.query('COMMIT')
          tx.release()
        },
        SpanKind.SERVER,
      ),
    )
    response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  env.later(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** As a client that is traced, too. */
async function post(url: string): Promise<void> {
  await inSpan('click', async () => {
    const headers = {}
    propagation.inject(context.active(), headers)
    await fetch(url, { method: 'POST', headers })
  })
}

test('a trace leads from a request over its push to the run of the handler, and what that does', async () => {
  const lockstep = traced()
  const queue = working()
  await post(await serve(lockstep, queue))
  await perform(lockstep, queue)
  expect(drawn()).toEqual([
    'click (internal)',
    '  POST /orders (server)',
    `    enqueue ${queue.name} (producer)`,
    `perform ${queue.name} (consumer) → enqueue ${queue.name}`,
    '  work (internal)',
  ])
})

test('with continueTraces, it is one trace', async () => {
  const lockstep = traced({ continueTraces: true })
  const queue = working()
  await post(await serve(lockstep, queue))
  await perform(lockstep, queue)
  expect(drawn()).toEqual([
    'click (internal)',
    '  POST /orders (server)',
    `    enqueue ${queue.name} (producer)`,
    `      perform ${queue.name} (consumer) → enqueue ${queue.name}`,
    '        work (internal)',
  ])
  expect(new Set(spans().map((one) => one.spanContext().traceId)).size).toBe(1)
})

test('a run is linked to the pushes of all payloads that were merged into it', async () => {
  const lockstep = traced({ continueTraces: true })
  const queue = working({ batchSize: 5 })
  await inSpan('first', () =>
    lockstep.enqueue(queue, [
      { id: 'a', payload: 1 },
      { id: 'a', payload: 2 },
    ]),
  )
  await inSpan('second', () =>
    lockstep.enqueue(queue, [
      { id: 'a', payload: 3 },
      { id: 'b', payload: 4 },
    ]),
  )
  await env.lockstep.enqueue(queue, { id: 'a', payload: 'not traced' })
  await env.lockstep.reshard(queue, 1)
  await perform(lockstep, queue)
  const run = span(`perform ${queue.name}`)
  const pushes = spans().filter(({ name }) => name === `enqueue ${queue.name}`)
  const [first, second] = pushes.map((one) => one.spanContext().spanId)
  // Of several traces, none can be continued.
  expect(run.parentSpanContext).toBeUndefined()
  expect(run.links.map((link) => [link.context.spanId, link.attributes])).toEqual([
    [first, { 'messaging.pg_lockstep.job.id': 'a' }],
    [second, { 'messaging.pg_lockstep.job.id': 'a' }],
    [second, { 'messaging.pg_lockstep.job.id': 'b' }],
  ])
  expect(run.attributes).toMatchObject({ 'messaging.batch.message_count': 5 })
})

test('a run belongs to no trace of whoever started the worker', async () => {
  const lockstep = traced()
  const queue = working()
  await env.lockstep.enqueue(queue, { id: 'a' })
  await inSpan('start', () => perform(lockstep, queue))
  expect(drawn()).toEqual(['start (internal)', `perform ${queue.name} (consumer)`, '  work (internal)'])
})

test('a context that the caller gave its payload stays', async () => {
  const lockstep = traced()
  const queue = working()
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  await lockstep.enqueue(queue, { id: 'a', headers: { traceparent } })
  await perform(lockstep, queue)
  expect(span(`perform ${queue.name}`).links.map((link) => link.context.spanId)).toEqual(['b7ad6b7169203331'])
})

test.each<[PayloadHeaders]>([
  [{ traceparent: 7 }],
  [{ traceparent: 'no context' }],
  [{ toString: 1 }],
  [{ constructor: { traceparent: '' } }],
])('headers that are no context are no link: %o', async (headers) => {
  const lockstep = traced()
  const queue = working()
  await env.lockstep.enqueue(queue, { id: 'a', headers })
  await perform(lockstep, queue)
  expect(span(`perform ${queue.name}`).links).toEqual([])
  expect(strict.wrong).toEqual([])
})

test('spans have the attributes of the conventions, and nothing of payloads', async () => {
  const lockstep = traced()
  const queue = working()
  await lockstep.enqueue(queue, { id: 'order-1', payload: 'secret', headers: { token: 'secret' } })
  await perform(lockstep, queue)
  const common = { 'messaging.system': 'pg_lockstep', 'messaging.destination.name': queue.name }
  expect(span(`enqueue ${queue.name}`).attributes).toEqual({
    ...common,
    'messaging.operation.name': 'enqueue',
    'messaging.operation.type': 'send',
  })
  expect(span(`perform ${queue.name}`).attributes).toEqual({
    ...common,
    'messaging.operation.name': 'perform',
    'messaging.operation.type': 'process',
    'messaging.client.id': expect.stringMatching(/^\d+$/),
    'messaging.destination.partition.id': expect.stringMatching(/^\d+$/),
    'messaging.pg_lockstep.job.id': 'order-1',
    'messaging.pg_lockstep.job.retry_count': -1,
  })
  expect(
    JSON.stringify(spans().map(({ attributes, events, links }) => ({ attributes, events, links }))),
  ).not.toContain('secret')
})

test('ids can be left out', async () => {
  const lockstep = traced({ jobIds: false })
  const queue = working()
  await lockstep.enqueue(queue, { id: 'anna@example.com' })
  await perform(lockstep, queue)
  expect(span(`perform ${queue.name}`).links).toHaveLength(1)
  expect(JSON.stringify(spans().map(({ attributes, links }) => ({ attributes, links })))).not.toContain(
    'anna',
  )
})

test('what a handler pushes belongs to its run', async () => {
  const lockstep = traced()
  const later = working()
  const queue = working({ perform: () => lockstep.enqueue(later, { id: 'b' }) })
  await env.lockstep.enqueue(queue, { id: 'a' })
  await perform(lockstep, queue)
  await perform(lockstep, later)
  await eventually(() =>
    expect(drawn()).toEqual([
      `perform ${queue.name} (consumer)`,
      `  enqueue ${later.name} (producer)`,
      `perform ${later.name} (consumer) → enqueue ${later.name}`,
      '  work (internal)',
    ]),
  )
})

test.each([
  [{ traces: true }, /otel: unknown option `traces`/],
  [{ jobIds: 1 }, /otel: jobIds must be true or false/],
  [{ continueTraces: 'yes' }, /otel: continueTraces must be true or false/],
  [{ databaseGauges: 0 }, /otel: databaseGauges must be true or false/],
  [{ metrics: null }, /otel: metrics must be true or false/],
  [{ formatError: 'x' }, /otel: formatError must be a function/],
])('bad options are refused: %o', (options, message) => {
  expect(() => otel(options as never)).toThrow(message)
})

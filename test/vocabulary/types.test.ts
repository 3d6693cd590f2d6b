import type { ClientBase, Pool, PoolClient } from 'pg'
import { expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import {
  type Batch,
  type ClientMiddleware,
  clientMiddlewareFor,
  defineQueue,
  type EnqueueTransaction,
  isFor,
  type Lockstep,
  type NewJob,
  type Queue,
  type ServerMiddleware,
  type TransactionalContext,
} from '../../src/index.ts'
import { createContext } from '../../src/testing/index.ts'

interface OrderEvent {
  readonly status: string
}

// Checked only by the compiler: nothing here ever runs.
declare const lockstep: Lockstep

test('a queue’s payload is inferred from its definition, and holds for whoever enqueues', () => {
  const declared = defineQueue<OrderEvent>('orders', {
    perform(batch) {
      expectTypeOf(batch).toEqualTypeOf<Batch<OrderEvent>>()
    },
  })
  expectTypeOf(declared).toEqualTypeOf<Queue<OrderEvent>>()

  const inferred = defineQueue('orders', { perform(_batch: Batch<OrderEvent>) {} })
  expectTypeOf(inferred).toEqualTypeOf<Queue<OrderEvent>>()

  const enqueue = (job: NewJob<OrderEvent>) => lockstep.enqueue(inferred, job)
  expectTypeOf(enqueue).parameter(0).toHaveProperty('payload').toEqualTypeOf<OrderEvent>()
  // @ts-expect-error: not the payload of this queue
  const wrong = () => lockstep.enqueue(declared, { id: 'order-1', payload: { state: 'paid' } })
  expectTypeOf(wrong).toBeFunction()
})

test('a transaction is what can be in one: no pool', () => {
  expectTypeOf<PoolClient>().toExtend<EnqueueTransaction>()
  expectTypeOf<TransactionalContext['tx']>().toExtend<EnqueueTransaction>()
  expectTypeOf<Pool>().not.toExtend<EnqueueTransaction>()
})

test('only a transactional handler has a transaction', () => {
  defineQueue<OrderEvent>('orders', {
    transactional: true,
    perform(_batch, context) {
      expectTypeOf(context.tx).toEqualTypeOf<ClientBase>()
    },
  })
  defineQueue<OrderEvent>('orders', {
    perform(_batch, context) {
      expectTypeOf(context).not.toHaveProperty('tx')
    },
  })
})

const Shipped = z.object({
  at: z.iso.datetime().transform((text) => new Date(text)),
  parcels: z.number().default(1),
})
type Pushed = { at: string; parcels?: number | undefined }
type Made = { at: Date; parcels: number }

test('a handler is called with a context for tests, of its library’s transaction or of none', () => {
  const plain = defineQueue<OrderEvent>('orders', { perform() {} })
  const own = defineQueue<OrderEvent>('orders', { transactional: true, perform() {} })
  const library = { transaction: async (work: (tx: { run(): void }) => Promise<void>) => work({ run() {} }) }
  const theirs = defineQueue('orders', {
    transactional: library,
    perform(_batch: Batch<OrderEvent>, { tx }) {
      tx.run()
    },
  })
  const batch = new Map([['order-1', [{ status: 'paid' }]]])
  // Kept, as a test does that looks at what has failed: then nothing else says what the type of `tx` is.
  const none = createContext(batch)
  const client = createContext(batch, { tx: {} as ClientBase })
  const lent = createContext(batch, { tx: { run() {} } })
  const calls = [
    () => plain.perform?.(batch, none),
    () => own.perform?.(batch, client),
    () => theirs.perform?.(batch, lent),
  ]
  expectTypeOf(calls).toBeArray()
})

test('a schema gives the type of what is pushed, and of what the handler gets', () => {
  const queue = defineQueue('shipped', {
    schema: Shipped,
    perform(batch, context) {
      expectTypeOf(batch).toEqualTypeOf<Batch<Made>>()
      expectTypeOf(context).not.toHaveProperty('tx')
    },
    onDeath: ({ payload }) => expectTypeOf(payload).toEqualTypeOf<Made | undefined>(),
  })
  expectTypeOf(queue).toEqualTypeOf<Queue<Pushed, Made>>()
  const find = () => lockstep.find(queue)
  expectTypeOf<
    Awaited<ReturnType<typeof find>>['items'][0]['payloads'][0]['payload']
  >().toEqualTypeOf<Pushed>()
  const jobs: NewJob<Pushed>[] = [{ id: 1, payload: { at: '2026-01-01T00:00:00Z' } }]
  const enqueue = () => lockstep.enqueue(queue, jobs)
  // @ts-expect-error: what the handler gets is not what is pushed
  const made = () => lockstep.enqueue(queue, { id: 1, payload: { at: new Date() } })
  // @ts-expect-error: the schema requires a payload
  const missing = () => lockstep.enqueue(queue, { id: 1 })
  const work = () => lockstep.createWorker({ queues: [queue] })
  for (const call of [enqueue, made, missing, work]) expectTypeOf(call).toBeFunction()
})

test('a transactional queue with a schema knows its transaction', () => {
  defineQueue('shipped', {
    schema: Shipped,
    transactional: true,
    perform(batch, { tx }) {
      expectTypeOf(batch).toEqualTypeOf<Batch<Made>>()
      expectTypeOf(tx).toEqualTypeOf<ClientBase>()
    },
  })
  defineQueue('shipped', {
    schema: Shipped,
    transactional: {
      transaction: (work: (tx: { commit(): void }) => Promise<void>) => work({ commit() {} }),
    },
    perform(batch, { tx }) {
      expectTypeOf(batch).toEqualTypeOf<Batch<Made>>()
      expectTypeOf(tx).toEqualTypeOf<{ commit(): void }>()
    },
  })
})

test('a schema must fit the type that the definition names', () => {
  defineQueue<{ status: string }>('orders', { schema: z.object({ status: z.string() }) })
  // @ts-expect-error: another payload
  defineQueue<{ status: string }>('orders', { schema: z.object({ state: z.string() }) })
})

test('a middleware knows the payloads of a queue once it has asked whether the call is for it', () => {
  const queue = defineQueue('shipped', { schema: Shipped })
  const client: ClientMiddleware = (call) => {
    if (isFor(queue, call)) {
      expectTypeOf(call.jobs[0]!.payload).toEqualTypeOf<Pushed>()
      for (const { payload } of call.jobs) expectTypeOf(payload).toEqualTypeOf<Pushed>()
      call.jobs.map(({ payload }) => expectTypeOf(payload).toEqualTypeOf<Pushed>())
    } else expectTypeOf(call.jobs).toEqualTypeOf<readonly NewJob[]>()
  }
  const server: ServerMiddleware = (call) => {
    if (isFor(queue, call)) expectTypeOf(call.batch).toEqualTypeOf<Batch<Made>>()
  }
  for (const middleware of [client, server]) expectTypeOf(middleware).toBeFunction()
})

test('a middleware for one queue passes on no other payloads than the queue’s', () => {
  const declared = defineQueue<OrderEvent>('orders')
  const added: NewJob<OrderEvent> = { id: 'order-2', payload: { status: 'paid' } }
  const right = clientMiddlewareFor(declared, (call, next) => {
    expectTypeOf(call.jobs).toEqualTypeOf<readonly NewJob<OrderEvent>[]>()
    return next([...call.jobs, added])
  })
  expectTypeOf(right).toEqualTypeOf<ClientMiddleware>()
  clientMiddlewareFor(declared, (call, next) =>
    // @ts-expect-error: not the payload of this queue
    next(call.jobs.map((job) => ({ ...job, payload: { status: 1, wrong: true } }))),
  )
  // @ts-expect-error: the queue requires a payload
  clientMiddlewareFor(declared, (_call, next) => next([{ id: 'order-2' }]))
  const shipped = defineQueue('shipped', { schema: Shipped })
  // @ts-expect-error: what the handler gets is not what is pushed
  clientMiddlewareFor(shipped, (_call, next) => next([{ id: 1, payload: { at: new Date(), parcels: 1 } }]))
  const named: ClientMiddleware<OrderEvent> = (call, next) => next(call.jobs)
  expectTypeOf(clientMiddlewareFor<OrderEvent, OrderEvent>).toBeCallableWith(declared, named)
  // @ts-expect-error: it is for another queue
  clientMiddlewareFor(shipped, named)
  // One for a single queue would get the payloads of all.
  expectTypeOf(named).not.toExtend<ClientMiddleware>()
})

test('a middleware for all queues passes on what it likes', () => {
  const declared = defineQueue<OrderEvent>('orders')
  const all: ClientMiddleware = (call, next) => next([...call.jobs, { id: 'a' }, { id: 'b', payload: 7 }])
  const some: ClientMiddleware = async (call, next) => {
    if (isFor(declared, call)) await next(call.jobs.filter(({ payload }) => payload.status !== ''))
    else await next(call.jobs)
  }
  for (const middleware of [all, some]) expectTypeOf(middleware).toBeFunction()
  // @ts-expect-error: so it doesn't fit a queue, whose payloads it may not know
  clientMiddlewareFor(declared, all)
})

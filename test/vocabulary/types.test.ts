import type { ClientBase, Pool, PoolClient } from 'pg'
import { expectTypeOf, test } from 'vitest'
import {
  type Batch,
  defineQueue,
  type EnqueueTransaction,
  type Lockstep,
  type NewJob,
  type Queue,
  type TransactionalContext,
} from '../../src/index.ts'

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

import { test } from 'vitest'
import { newcomersAvoid } from '../support/newcomers.ts'
import { useConsumers } from './claims.ts'

const { env, consumer } = useConsumers()

test('a consumer tells producers where jobs of tenants wait: a newcomer shares no such lane', {
  tags: 'slow',
}, async () => {
  const queue = env.queue({ shards: 2 })
  const since = new Date(Date.now() - 60_000)
  await env.lockstep.enqueue(queue, [
    ...Array.from({ length: 40 }, (_, n) => ({ id: `${n}`, tenant: `t${n}` })),
    ...Array.from({ length: 40 }, (_, n) => ({ id: `heavy ${n}`, tenant: 't3', performIn: since })),
  ])
  await consumer().claim({ queues: queue })
  await newcomersAvoid(env, queue, 't3')
})

import { test } from 'vitest'
import { othersAvoid, pileUp } from '../support/newcomers.ts'
import { useConsumers } from './claims.ts'

const { env, consumer } = useConsumers()

test('a consumer tells producers where jobs of tenants wait: others share no such lane', {
  tags: 'slow',
}, async () => {
  const queue = env.queue({ shards: 2 })
  const backlog = await pileUp(env, queue)
  await consumer().claim({ queues: queue, count: 5 })
  await othersAvoid(env, queue, backlog)
})

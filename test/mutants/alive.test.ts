import { expect, test } from 'vitest'
import { eventually, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

test('a pushed job is performed, and nothing of it is left', async () => {
  const queue = env.queue({ perform() {} })
  const worker = await env.work({ queues: [queue] })
  const completed = next(worker, 'completed')
  await env.lockstep.enqueue(queue, { id: 'a' })
  await completed
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
})

import { expect, test } from 'vitest'
import { eventually, next, useWorkshop } from '../support/workshop.ts'

const shop = useWorkshop()

test('a pushed job is performed, and nothing of it is left', async () => {
  const queue = shop.queue({ perform() {} })
  const worker = await shop.work({ queues: [queue] })
  const completed = next(worker, 'completed')
  await shop.lockstep.enqueue(queue, { id: 'a' })
  await completed
  await eventually(async () => expect(await shop.jobs(queue)).toBe(0))
})

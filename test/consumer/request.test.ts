import { expect, test } from 'vitest'
import { ConsumedQueue } from '../../src/consumer/consumed-queue.ts'
import type { ClaimedJob } from '../../src/consumer/options.ts'
import { Request } from '../../src/consumer/request.ts'
import { defineQueue } from '../../src/index.ts'

test('the jobs of an answer come in the order of its queues, whichever came first', async () => {
  const queues = ['first', 'second', 'third'].map((name, n) => new ConsumedQueue(defineQueue(name), n + 1, 1))
  const request = new Request(queues, { count: 9, lease: 30_000 })
  const come = ['second 1', 'third 1', 'first 1', 'second 2', 'first 2']
  for (const one of come) {
    const [queue, id] = one.split(' ')
    request.give({ queue, id } as ClaimedJob, 1, performance.now())
  }
  request.end()
  const jobs = await request.answer
  expect(jobs.map(({ queue, id }) => `${queue} ${id}`)).toEqual([...come].sort())
})

import { expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { Appointments } from '../../src/worker/schedule/appointments.ts'
import { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import { Shard } from '../../src/worker/schedule/shard.ts'

const served = new ServedQueue(defineQueue('to come'), 1)
const lanes = (count: number) => Array.from({ length: count }, (_, shard) => new Shard(served, shard).lane(0))

test('come by their times, each once, and only where they still count', () => {
  const [a, b, c] = lanes(3) as [never, never, never]
  const appointments = new Appointments()
  appointments.make(a, 30)
  appointments.make(b, 10)
  appointments.make(c, 20)
  appointments.make(a, 5)
  appointments.cancel(c)
  expect(appointments.next).toBe(5)
  expect([...appointments.due(4)]).toEqual([])
  expect([...appointments.due(25)]).toEqual([a, b])
  expect([...appointments.due(100)]).toEqual([])
  expect(appointments.next).toBe(Number.POSITIVE_INFINITY)
})

test('a lane that is due again and again before a far time leaves nothing behind', () => {
  const far = 10 ** 15
  const all = lanes(100)
  const appointments = new Appointments()
  for (let turn = 0; turn < 100; turn += 1) {
    for (const [place, lane] of all.entries()) {
      appointments.cancel(lane)
      appointments.make(lane, far + place + (turn % 2))
    }
  }
  expect(appointments.size).toBeLessThan(400)
  const due = [...appointments.due(2 * far)]
  expect(new Set(due)).toEqual(new Set(all))
  expect(due).toHaveLength(100)
})

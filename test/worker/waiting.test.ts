import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Scheduler } from '../../src/index.ts'
import { silentLogger } from '../../src/logger.ts'
import { Slot } from '../../src/worker/performing/slot.ts'
import { openExecutor } from '../support/open-executor.ts'
import { eventually, Gate } from '../support/worker-environment.ts'

/** Picks the queues in this order, and then what comes first. */
function inOrder(...queues: string[]): Scheduler {
  return {
    pick(candidates) {
      const next = queues.shift()
      return next ? candidates.find(({ queue }) => queue === next) : candidates[0]
    },
  }
}

function startSlot(
  index: number,
  { executor, timetable }: ReturnType<typeof openExecutor>,
  scheduler: Scheduler,
  onFailure = (error: unknown): void => {
    throw error
  },
): void {
  const slot = new Slot({
    ...{ index, timetable, scheduler, logger: silentLogger },
    ready: () => true,
    serve: (lane, performOther) => executor.serve(lane, index, performOther),
    onIdle() {},
    onFailure,
  })
  void slot.start()
  onTestFinished(() => void slot.stop())
}

describe('P7: a slot that waits for a claim', () => {
  test('performs what is prefetched of another queue meanwhile, then what the claim brings', async () => {
    const begun: string[] = []
    const perform = async (id: string) => void begun.push(id)
    const opened = openExecutor({ perform }, { perform })
    const { timetable, lanes, claims, released, answer } = opened
    for (const { key } of lanes) timetable.notice(key, 1)
    startSlot(0, opened, inOrder('queue-1', 'queue-0'))
    await answer(1, [1, 2, 3], null)
    await eventually(() => expect(begun).toEqual(['1', '2', '3']))
    expect(claims).toHaveLength(1)
    await answer(0, [4], null)
    await eventually(() => expect(begun).toEqual(['1', '2', '3', '4']))
    expect(released).toEqual([])
  })

  test('performs nothing that is only due, whatever the scheduler makes of its lists', async () => {
    const begun: string[] = []
    const perform = async (id: string) => void begun.push(id)
    const opened = openExecutor({ perform }, { perform }, { perform })
    const { timetable, lanes, claims, answer } = opened
    for (const { key } of lanes) timetable.notice(key, 1)
    const order = ['queue-1', 'queue-0']
    const failures: unknown[] = []
    const joining: Scheduler = {
      pick(candidates, others = []) {
        const next = order.shift()
        if (next) return candidates.find(({ queue }) => queue === next)
        const all = candidates as (typeof candidates)[number][]
        all.push(...others)
        return all.at(-1)
      },
    }
    startSlot(0, opened, joining, (error) => failures.push(error))
    await answer(1, [1, 2], null)
    await eventually(() => expect(failures.length).toBeGreaterThan(0))
    expect(begun).toEqual(['1'])
    expect(claims).toHaveLength(1)
  })

  test('leaves what the claim brings to others while it performs something else, within the limit of the queue', async () => {
    const [two, four] = [new Gate(), new Gate()]
    const begun: string[] = []
    const perform = async (id: string) => {
      begun.push(id)
      if (id === '2') await two.opened
      if (id === '4') await four.opened
    }
    const opened = openExecutor({ perform, concurrency: 1 }, { perform })
    const { timetable, lanes, answer } = opened
    for (const { key } of lanes) timetable.notice(key, 1)
    startSlot(0, opened, inOrder('queue-1', 'queue-0'))
    await answer(1, [1, 2], null)
    await eventually(() => expect(begun).toEqual(['1', '2']))
    startSlot(1, opened, inOrder())
    await answer(0, [4, 5], null)
    await eventually(() => expect(begun).toEqual(['1', '2', '4']))
    two.open()
    await sleep(10)
    expect(begun).toEqual(['1', '2', '4'])
    four.open()
    await eventually(() => expect(begun).toEqual(['1', '2', '4', '5']))
  })
})

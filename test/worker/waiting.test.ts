import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Scheduler, strict, type TakenJob } from '../../src/index.ts'
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
    serve: (lane, performOther, onTaken) => executor.serve(lane, index, performOther, onTaken),
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

test('R13: a scheduler hears what each of its picks has taken, or that it was nothing', async () => {
  const opened = openExecutor({ perform: async () => {} })
  const { timetable, lanes, answer } = opened
  const taken: (readonly TakenJob[])[] = []
  startSlot(0, opened, {
    pick: (candidates) => candidates[0],
    took: (_, jobs) => void taken.push(jobs),
  })
  timetable.notice(lanes[0]!.key, 1)
  await answer(0, [], null)
  await eventually(() => expect(taken).toEqual([[]]))
  timetable.notice(lanes[0]!.key, 1)
  await answer(0, [1], null)
  await eventually(() => expect(taken).toEqual([[], [{ tenant: null }]]))
})

describe('R13: slots that become free while the only shard of a queue is being claimed', () => {
  /** Of two queues with slow handlers, the first one is urgent. One of its jobs is being performed, and the next is due. */
  async function open({ more }: { more: boolean }) {
    const gate = new Gate()
    onTestFinished(() => gate.open())
    const begun: string[] = []
    const perform = async (id: string) => {
      begun.push(id)
      await gate.opened
    }
    const opened = openExecutor({ perform, isSlow: true }, { perform, isSlow: true })
    const { timetable, lanes, claims, answer } = opened
    const [urgent, other] = lanes
    timetable.notice(urgent!.key, 1)
    startSlot(0, opened, strict(['queue-0']))
    await answer(0, [1], more ? 2 : null)
    await eventually(() => expect(begun).toEqual(['1']))
    if (!more) timetable.notice(urgent!.key, 2)
    timetable.notice(other!.key, 1)
    for (const slot of [1, 2, 3]) startSlot(slot, opened, strict(['queue-0']))
    await eventually(() => expect(claims.length).toBeGreaterThan(0))
    return { ...opened, begun, asked: () => claims.map(({ queueId, count }) => ({ queueId, count })) }
  }

  test('wait for the claim, and the next one asks for as many as still wait', async () => {
    const { begun, asked, answer } = await open({ more: true })
    expect(asked()).toEqual([{ queueId: 0, count: 1 }])
    await answer(0, [2], 3)
    await eventually(() => expect(begun).toEqual(['1', '2']))
    await eventually(() => expect(asked()).toEqual([{ queueId: 0, count: 2 }]))
    await answer(0, [3, 4], null)
    await eventually(() => expect(begun).toEqual(['1', '2', '3', '4']))
    expect(asked()).toEqual([])
  })

  test('take something else if it has no more', async () => {
    const { begun, asked, answer } = await open({ more: true })
    await answer(0, [2], null)
    await eventually(() => expect(asked()).toMatchObject([{ queueId: 1 }]))
    await answer(1, [5], null)
    await eventually(() => expect(begun).toEqual(['1', '2', '5']))
  })

  test('do not wait where the claim before left nothing due', async () => {
    const { begun, asked, answer } = await open({ more: false })
    await eventually(() => expect(asked()).toMatchObject([{ queueId: 0 }, { queueId: 1 }]))
    await answer(1, [5], null)
    await eventually(() => expect(begun).toEqual(['1', '5']))
  })

  test('P7: do not wait for a claim that takes long', async () => {
    const { begun, asked, answer } = await open({ more: true })
    await eventually(() => expect(asked()).toMatchObject([{ queueId: 0 }, { queueId: 1 }]))
    await answer(1, [5], null)
    await eventually(() => expect(begun).toEqual(['1', '5']))
    await answer(0, [2], null)
    await eventually(() => expect(begun).toEqual(['1', '5', '2']))
  })
})

import { expect, test } from 'vitest'
import { openExecutor } from '../support/open-executor.ts'
import { eventually, Gate } from '../support/worker-environment.ts'

test('P8: what a claim brings after jobs of its lane were released is released, too: it is due after them', async () => {
  const gate = new Gate()
  const begun: string[] = []
  const { executor, lanes, released, answer } = openExecutor({
    async perform(id) {
      begun.push(id)
      if (id === '3') await gate.opened
    },
  })
  const serve = () => executor.serve(lanes[0]!, 0, async () => false)
  const first = serve()
  await answer(0, [1], 9)
  await first
  const second = serve()
  await answer(0, [2, 3, 4, 5], 9)
  await second
  const third = serve()
  // Half of the portion has begun, so the next jobs are claimed already; but its third one takes its time.
  await eventually(() => expect(released).toEqual([['4', '5']]))
  await answer(0, [6], 9)
  await new Promise(setImmediate)
  const fourth = serve()
  await answer(0, [4], 9)
  await fourth
  expect(begun).toEqual(['1', '2', '3', '4'])
  expect(released).toEqual([['4', '5'], ['6']])
  gate.open()
  await third
})

import { expect, test } from 'vitest'
import { orderCount, planFeed } from '../../src/cli/demo/feed.ts'

test.each([1, 10, 59, 1_500, 20_000])(
  'a feed of %i commits exactly so many updates, and rolls one in 20 back',
  (events) => {
    const feed = planFeed(events)
    const updates = (rollBack: boolean) =>
      feed.filter((one) => one.rollBack === rollBack).flatMap((one) => one.updates)
    expect(updates(false)).toHaveLength(events)
    expect(updates(true)).toHaveLength(Math.floor(events / 20))
  },
)

test('no update comes twice, and no order is cold', () => {
  const updates = planFeed(20_000).flatMap((one) => one.updates)
  expect(new Set(updates.map(({ order, version }) => `${order} ${version}`)).size).toBe(updates.length)
  expect(new Set(updates.map(({ order }) => order)).size).toBe(orderCount(20_000))
})

test('newer versions often arrive before older ones', () => {
  const newest = new Map<string, number>()
  let late = 0
  for (const { order, version } of planFeed(5_000).flatMap((one) => one.updates)) {
    if (version < (newest.get(order) ?? 0)) late += 1
    newest.set(order, Math.max(version, newest.get(order) ?? 0))
  }
  expect(late).toBeGreaterThan(1_000)
})

import { describe, expect, test } from 'vitest'
import { Check } from '../../bench/measure/check.ts'
import { median, percentile } from '../../bench/measure/percentile.ts'

const update = (seq: number, key = 'a') => ({ key, seq })

describe('what a benchmark accepts', () => {
  test('updates of a key one after the other, several in one hand or not', async () => {
    const check = new Check('per key', 4)
    const hands = [[update(0), update(1)], [update(2)], [update(0, 'b')]]
    for (const hand of hands) {
      check.starts(hand)
      check.ends(hand)
    }
    await check.finish.reached
    expect([check.done, check.repeated, check.outOfOrder]).toEqual([4, 0, 0])
  })

  test('not a later one before an earlier one', () => {
    const check = new Check('per key', 2)
    check.starts([update(1), update(0)])
    expect(check.outOfOrder).toBe(1)
  })

  test('not one while another handler has one of the same key', () => {
    const check = new Check('per key', 2)
    const first = [update(0)]
    check.starts(first)
    check.starts([update(0, 'b')])
    expect(check.outOfOrder).toBe(0)
    check.starts([update(1)])
    expect(check.outOfOrder).toBe(1)
  })

  test('any order where none is claimed, but nothing twice', () => {
    const check = new Check('any', 2)
    check.starts([update(1), update(0), update(0)])
    expect([check.outOfOrder, check.repeated]).toEqual([0, 1])
  })
})

test('percentiles are nearest ranks', () => {
  const hundred = Array.from({ length: 100 }, (_, index) => 100 - index)
  expect([50, 95, 99, 100].map((percent) => percentile(hundred, percent))).toEqual([50, 95, 99, 100])
  expect(percentile([], 50)).toBeNaN()
  expect([median([3, 1, 2]), median([4, 1])]).toEqual([2, 2.5])
})

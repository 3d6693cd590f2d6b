import { expect, test } from 'vitest'
import { differenceOf } from '../../bench/measure/difference.ts'

test('a difference is that of the short times of blocks, however long others are', () => {
  const second = [1, 700, 1, 2, 2, 2]
  expect(differenceOf([3, 3, 900, 4, 4, 900], second, 3)).toEqual({ mean: 2, spread: 0 })
})

test('its spread grows with what blocks disagree about, and is less the more there are', () => {
  const zeros = (count: number) => Array.from({ length: count }, () => 0)
  const swinging = (count: number) => Array.from({ length: count }, (_, n) => (n % 2 ? 1 : -1))
  const { mean, spread } = differenceOf(swinging(100), zeros(100), 1)
  expect(mean).toBe(0)
  expect(spread).toBeCloseTo(1.96 / Math.sqrt(99))
  expect(differenceOf(swinging(400), zeros(400), 1).spread).toBeLessThan(spread)
})

test('one block says nothing of how far it is off', () => {
  expect(() => differenceOf([1, 2, 3], [1, 2, 3], 2)).toThrow(/two blocks/)
})

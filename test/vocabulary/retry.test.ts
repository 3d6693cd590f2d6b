import { afterEach, expect, test, vi } from 'vitest'
import { defaultRetryIn } from '../../src/retry.ts'

afterEach(() => vi.restoreAllMocks())

test('R8 retryIn(n) is n⁴ + 15 + random(0..29)·(n + 1) seconds', () => {
  const random = vi.spyOn(Math, 'random')
  for (const n of [0, 1, 2, 10, 25]) {
    random.mockReturnValue(0)
    expect(defaultRetryIn(n)).toBe(n ** 4 + 15)
    random.mockReturnValue(1 - Number.EPSILON)
    expect(defaultRetryIn(n)).toBe(n ** 4 + 15 + 29 * (n + 1))
  }
})

test('R8 retryIn takes every step between', () => {
  const seen = new Set(Array.from({ length: 5_000 }, () => defaultRetryIn(1)))
  expect([...seen].sort((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, i) => 16 + 2 * i))
})

test('R8 25 retries take about three weeks', () => {
  vi.spyOn(Math, 'random').mockReturnValue(0.5)
  const seconds = Array.from({ length: 25 }, (_, n) => defaultRetryIn(n)).reduce((sum, one) => sum + one)
  expect(seconds / 86_400).toBeGreaterThan(19)
  expect(seconds / 86_400).toBeLessThan(22)
})

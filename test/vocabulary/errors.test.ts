import { expect, test } from 'vitest'
import { describeError } from '../../src/errors.ts'

test('whatever was thrown, its description is text that Postgres can hold', () => {
  expect(describeError(undefined)).toBe('undefined was thrown')
  expect(describeError(null)).toBe('null was thrown')
  expect(describeError('a string')).toBe('a string')
  expect(describeError(new RangeError('too far'))).toMatch(/^RangeError: too far\n/)
  expect(describeError(Object.create(null))).toContain('can’t be shown as text')
  expect(describeError(Object.assign(new Error('odd'), { stack: 7 }))).toBe('Error: odd')
  expect(describeError('a\u0000b \ud800')).toBe('a\ufffdb \ufffd')
})

test('a description is bounded', () => {
  expect(describeError(new Error('x'.repeat(5_000_000))).length).toBe(8_000)
})

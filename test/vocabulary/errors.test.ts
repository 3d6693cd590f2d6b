import { expect, test } from 'vitest'
import { describeError } from '../../src/errors.ts'

test('whatever was thrown, its description is text that Postgres can hold', () => {
  expect(describeError(undefined)).toBe('undefined was thrown')
  expect(describeError(null)).toBe('null was thrown')
  expect(describeError('a string')).toBe('a string')
  expect(describeError(new RangeError('too far'))).toMatch(/^RangeError: too far\n\s+at /)
  expect(describeError(Object.assign(new Error('no stack'), { stack: '' }))).toBe('Error: no stack')
  expect(describeError(Object.create(null))).toContain('can’t be shown as text')
  expect(describeError(Object.assign(new Error('odd'), { stack: 7 }))).toBe('Error: odd')
  expect(describeError('a\u0000b \ud800')).toBe('a\ufffdb \ufffd')
})

test('a description is bounded', () => {
  expect(describeError(new Error('x'.repeat(5_000_000))).length).toBe(8_000)
})

test('a description ends with the causes, however long the error and they are', () => {
  const server = new Error('duplicate key')
  const long = 'x'.repeat(100_000)
  const described = describeError(new Error(`query: ${long}`, { cause: new Error(long, { cause: server }) }))
  expect(described).toMatch(
    /^Error: query: x+…\ncaused by: Error: x+…\ncaused by: Error: duplicate key\n\s+at /,
  )
  expect(described.length).toBeLessThan(8_000)
  expect(describeError(new Error('why', { cause: 'a string' }))).toMatch(/\ncaused by: a string$/)
})

test('a description has the message, also where a library sets that later, and what Sequelize calls a parent', () => {
  const late = new Error('Validation error')
  Object.assign(late, { stack: 'Error: \n    at query', parent: new Error('duplicate key') })
  expect(describeError(late)).toMatch(
    /^Error: Validation error\nError: \n {4}at query\ncaused by: Error: duplicate key\n/,
  )
})

test('an error may be its own cause', () => {
  const one = new Error('one')
  const other = new Error('other', { cause: one })
  one.cause = other
  expect(describeError(one).match(/caused by/g)).toHaveLength(1)
  one.cause = one
  expect(describeError(one)).not.toContain('caused by')
})

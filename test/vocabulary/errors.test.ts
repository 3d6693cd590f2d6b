import { expect, test } from 'vitest'
import { describeError, legible, summaryOf } from '../../src/errors.ts'

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

test('the errors that an AggregateError holds count as causes', async () => {
  const all = await Promise.any([
    Promise.reject(new Error('no route')),
    Promise.reject(new Error('refused')),
  ]).catch((error: unknown) => error)
  expect(describeError(all)).toMatch(
    /^AggregateError: All promises were rejected[\s\S]*\ncaused by: Error: no route\n[\s\S]*\ncaused by: Error: refused\n/,
  )
})

/** An error with a getter that throws. */
function broken(name: string) {
  const get = () => {
    throw new Error('never told')
  }
  return Object.defineProperty(new Error('the card was refused'), name, { get })
}

test.each(['name', 'cause', 'code', 'stack'])('a getter of `%s` that throws leaves the message', (name) => {
  expect(describeError(broken(name))).toContain('the card was refused')
  expect(String(legible(broken(name)))).toBe(
    'Error: what was thrown can’t be read whole: the card was refused',
  )
})

test('what can’t even be asked for its class is replaced by an error', () => {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  const revoked = Proxy.revocable(() => {}, {})
  revoked.revoke()
  for (const one of [proxy, revoked.proxy]) {
    expect(legible(one)).toBeInstanceOf(Error)
    expect(describeError(one)).toContain('can’t be shown as text')
  }
})

test('so is a proxy that may throw later', () => {
  expect(legible(new Proxy(new Error('odd'), {}))).toEqual(
    new Error('what was thrown can’t be read whole: odd'),
  )
})

test.each([
  ['a symbol', Symbol('q'), 'Symbol(q)'],
  ['no text', Object.create(null), 'can’t be shown as text'],
  ['an object', { code: 1 }, '[object Object]'],
])('a message that is %s becomes text', (_, message, text) => {
  const odd = Object.assign(new Error('x'), { message })
  for (const one of [odd, new Error('outer', { cause: odd }), new AggregateError([odd], 'all')])
    expect(describeError(one)).toContain(text)
  expect(summaryOf(odd)).toContain(text)
  expect(legible(odd)).toMatchObject({ message: expect.stringContaining(text) })
})

test.each([[new RangeError('too far')], ['text'], [undefined], [Object.create(null)]])(
  '%j stays what it is',
  (thrown) => {
    expect(legible(thrown)).toBe(thrown)
  },
)

test('a plain object is told by what it has of its own, be it thrown or a cause', () => {
  const thrown = { kind: 'UniqueConstraintViolation', originalCode: '23505', constraint: { fields: ['id'] } }
  const told = "{ kind: 'UniqueConstraintViolation', originalCode: '23505', constraint: [Object] }"
  expect(describeError(thrown)).toBe(told)
  const error = new Error('refused', { cause: thrown })
  expect(describeError(error)).toContain(`caused by: ${told}`)
  expect(summaryOf(error)).toBe(`refused; caused by: ${told}`)
})

test('causes without end are cut', () => {
  class Endless extends Error {
    override get cause() {
      return new Endless('more')
    }
  }
  expect(describeError(new Endless('first')).match(/caused by/g)).toHaveLength(2)
})

import { describe, expect, test } from 'vitest'
import { Discard, OptionError, RetryIn, Snooze } from '../../src/index.ts'

describe.each([Snooze, RetryIn])('%o', (Ending) => {
  test.each([Number.POSITIVE_INFINITY, Number.NaN, -1, '1', undefined, null])(
    'takes no %o for seconds',
    (seconds) => {
      const create = () => new Ending(seconds as number)
      expect(create).toThrow(OptionError)
      expect(create).toThrow(`${Ending.name}: seconds must be a finite number from 0 on`)
    },
  )

  test('takes none and very many', () => {
    for (const seconds of [0, 0.3, 1e12])
      expect(new Ending(seconds).message).toMatch(new RegExp(` in ${seconds} s$`))
  })
})

test('the message of a RetryIn tells its cause, whatever that is', () => {
  const cause = new Error('busy')
  expect(new RetryIn(0.3, { cause })).toMatchObject({ message: 'again in 0.3 s: busy', cause })
  expect(new RetryIn(0.3, { cause: 'a text' }).message).toBe('again in 0.3 s: a text')
  expect(new RetryIn(0.3, {}).message).toBe('again in 0.3 s')
})

test('a Discard without a reason says so, or has that of its cause', () => {
  for (const none of [undefined, null, ''] as string[]) {
    expect(new Discard(none).message).toBe('no reason was given')
    expect(new Discard(none, { cause: new Error('gone') }).message).toBe('gone')
  }
  expect(new Discard('mine', { cause: new Error('gone') }).message).toBe('mine')
})

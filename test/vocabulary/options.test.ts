import { expect, test } from 'vitest'
import { Lockstep } from '../../src/lockstep.ts'
import { rejectUnknownOptions, show } from '../../src/options.ts'

test('an unknown option is named with the nearest known one, or with all', () => {
  const check = (key: string) => () => rejectUnknownOptions({ [key]: 1 }, ['slots', 'queues'], 'worker')
  expect(check('slots')).not.toThrow()
  expect(check('slot')).toThrow('worker: unknown option `slot`, did you mean `slots`?')
  expect(check('concurrency')).toThrow(
    'worker: unknown option `concurrency`, the known ones are slots, queues',
  )
})

test('options are an object', () => {
  for (const options of [null, 'slots', [], [{ slots: 1 }]])
    expect(() => rejectUnknownOptions(options as object, ['slots'], 'worker')).toThrow(
      /must be an object, not/,
    )
})

test('Lockstep wants one way to the database, and no option it does not know', () => {
  expect(() => new Lockstep({})).toThrow('either `connectionString` or `pool`')
  expect(() => new Lockstep({ connectionString: '', pool: {} as never })).toThrow('either')
  const misspelt = { connectionstring: 'postgres://nowhere' } as object
  expect(() => new Lockstep(misspelt)).toThrow('did you mean `connectionString`?')
})

test.each<[unknown, string]>([
  ['text', '"text"'],
  ['x'.repeat(41), `"${'x'.repeat(40)}…"`],
  [1n, '1n'],
  [[1], 'an array'],
  [{ secret: 1 }, 'an object'],
  [null, 'null'],
  [undefined, 'undefined'],
  [() => {}, 'a function'],
  [Symbol('s'), 'Symbol(s)'],
  [-0.5, '-0.5'],
])('a value in a message is short: %o', (value, picture) => {
  expect(show(value)).toBe(picture)
})

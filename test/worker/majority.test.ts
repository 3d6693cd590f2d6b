import { expect, test } from 'vitest'
import { Majority } from '../../src/worker/schedule/majority.ts'

function majorityOf(...names: readonly (string | null)[]): string | null {
  const majority = new Majority()
  for (const name of names) majority.add(name)
  return majority.name
}

test('of what was added, the name is found that more than half have, in whatever order', () => {
  expect(majorityOf()).toBeNull()
  expect(majorityOf('a')).toBe('a')
  expect(majorityOf('a', 'b')).toBeNull()
  expect(majorityOf('b', 'a', 'c', 'a', 'a')).toBe('a')
  expect(majorityOf('a', 'a', 'a', 'b', 'c')).toBe('a')
  expect(majorityOf('a', null, null)).toBeNull()
})

test('one that had it for long has it no more after a hundred of another', () => {
  const many = (name: string, count: number) => Array<string>(count).fill(name)
  expect(majorityOf(...many('a', 5_000), ...many('b', 99))).toBe('a')
  expect(majorityOf(...many('a', 5_000), ...many('b', 101))).toBe('b')
})

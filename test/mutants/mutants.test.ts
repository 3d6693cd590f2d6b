import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { CLASSIC } from './classic.ts'
import { mutate } from './mutant.ts'
import { MUTANTS } from './mutants.ts'

test.each(MUTANTS.map((mutant) => [mutant.name, mutant] as const))(
  'the mutant "%s" still fits the source',
  (_, { edits, tests }) => {
    const texts = new Map<string, string>()
    for (const edit of edits) {
      const text = texts.get(edit.file) ?? readFileSync(edit.file, 'utf8')
      const mutated = mutate(edit, text)
      expect(mutated).not.toBe(text)
      texts.set(edit.file, mutated)
    }
    for (const name of tests) expect(existsSync(`test/${name}.test.ts`)).toBe(true)
  },
)

test('there are ten classic ones, and each mutant has a name of its own', () => {
  expect(CLASSIC).toHaveLength(10)
  expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length)
})

test('a mutant whose place has changed is an error, not a test that passes', () => {
  const edit = { file: 'a.sql', from: 'old', to: 'new' }
  expect(() => mutate(edit, 'other')).toThrow('a.sql has 0 of "old", not 1')
  expect(() => mutate(edit, 'old old')).toThrow('a.sql has 2 of "old", not 1')
})

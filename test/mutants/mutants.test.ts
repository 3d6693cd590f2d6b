import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { mutate } from './laboratory.ts'
import { MUTANTS } from './mutants.ts'

test.each(MUTANTS.map((mutant) => [mutant.name, mutant] as const))(
  'the mutant "%s" still fits the source',
  (_, mutant) => {
    for (const edit of mutant.edits) {
      const text = readFileSync(edit.file, 'utf8')
      expect(mutate(edit, text)).not.toBe(text)
    }
    for (const name of mutant.tests) expect(existsSync(`test/${name}.test.ts`)).toBe(true)
  },
)

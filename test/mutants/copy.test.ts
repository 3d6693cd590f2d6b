import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { Copy } from './copy.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

test('hidden folders, which other tests create and remove meanwhile, are not copied', () => {
  const hidden = mkdtempSync(join(import.meta.dirname, '.hidden-'))
  onTestFinished(() => rmSync(hidden, { recursive: true }))
  const copy = new Copy(ROOT)
  onTestFinished(() => copy.remove())
  const mutants = join(copy.directory, 'test/mutants')
  expect(existsSync(join(mutants, 'copy.ts'))).toBe(true)
  expect(existsSync(join(mutants, basename(hidden)))).toBe(false)
})

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'

const { exports } = JSON.parse(readFileSync('package.json', 'utf8'))
const faces = Object.entries<Record<string, string>>(exports).filter(([, { default: file }]) =>
  file?.includes('/adapters/'),
)

test.each(faces)('pg-lockstep%s has transactionsOf, and none of our own parts', async (_, face) => {
  const file = resolve(face['pg-lockstep-source']!)
  expect(Object.keys(await import(file))).toEqual(['transactionsOf'])
})

test('each library has one', () => {
  expect(faces).toHaveLength(8)
})

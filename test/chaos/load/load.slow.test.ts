import { expect, test } from 'vitest'
import { FIGURES } from './figures.ts'
import { endure } from './load.ts'

test('a small load is borne: all payloads are accounted for, and the figures are taken', async () => {
  const found = await endure({ duration: 12_000, waiting: 20_000, tell() {} })
  expect(found.done).toBeGreaterThan(10_000)
  expect(found.left).toBe(found.pushed - found.done)
  const of = (what: string) => found.courses.find((course) => course.what === what)
  expect(of(FIGURES.advisory.what)).toMatchObject({ grew: false })
  expect(of(FIGURES.advisory.what)!.end).toBeGreaterThan(2_000)
  for (const { end } of found.courses) expect(end).toBeGreaterThanOrEqual(0)
}, 120_000)

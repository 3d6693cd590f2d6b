import { expect, test } from 'vitest'
import { courseOf, FIGURES, type Sample } from './figures.ts'
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

test('what grows beyond its limit is told', () => {
  const still = Object.fromEntries(Object.keys(FIGURES).map((key) => [key, 100])) as Sample
  const samples = Array.from({ length: 40 }, (_, index) => ({
    ...still,
    rss: 100 + index,
    dead: 100 + index,
  }))
  const grown = courseOf(samples).filter(({ grew }) => grew)
  expect(grown.map(({ what, start, end }) => ({ what, start, end }))).toEqual([
    { what: FIGURES.rss.what, start: 115, end: 138 },
  ])
})

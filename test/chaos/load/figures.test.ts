import { expect, test } from 'vitest'
import { courseOf, FIGURES, type Sample } from './figures.ts'

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

import { expect, test } from 'vitest'
import { Diary, LEASE } from './faults.ts'

/** What was seen of a job `a`, and what is known of it. */
function seen({
  from,
  to = from.map((at) => at + 100),
  done,
  released = [],
}: {
  readonly from: readonly number[]
  readonly to?: readonly number[]
  readonly done?: number
  readonly released?: readonly number[]
}): Diary {
  const diary = new Diary()
  diary.published.add('a')
  for (const [index, at] of from.entries())
    diary.deliveries.push({ id: 'a', from: at, to: to[index]!, isReleased: released.includes(index) })
  if (done !== undefined) diary.done.set('a', done)
  return diary
}

const judged =
  (diary: Diary, dead: readonly string[] = [], tries = 3) =>
  () =>
    diary.judge(new Set(dead), tries)

test('a run is fine in which each job came as often as it may, one after the other', () => {
  expect(judged(seen({ from: [0, 2_000, 4_000], done: 4_100 }))).not.toThrow()
  expect(judged(seen({ from: [0] }), ['a'])).not.toThrow()
  expect(judged(seen({ from: [0, 1_000, 2_000, 3_000], released: [1] }))).not.toThrow()
})

test.each([
  ['is lost', seen({ from: [] }), []],
  ['is held twice at once', seen({ from: [0, 1_000], to: [2_000, 3_000] }), []],
  ['comes again though it is done', seen({ from: [0, 1_000], done: 500 }), []],
  ['is dead though it is done', seen({ from: [0], done: 500 }), ['a']],
  ['comes too often', seen({ from: [0, 1_000, 2_000, 3_000] }), []],
])('one in which a job %s is not', (_, diary, dead) => {
  expect(judged(diary, dead)).toThrow()
})

test('a client has a job until its lease is over, counted from when it asked', () => {
  const diary = new Diary()
  expect(diary.delivered('a', 500).to).toBe(500 + LEASE * 1_000)
})

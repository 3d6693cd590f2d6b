import { expect, test } from 'vitest'
import type { ProcessSight } from '../../src/store/process.ts'
import { Silence } from '../../src/store/silence.ts'

const LEASE = 1_000

function seen(processId: number, renewal: number): ProcessSight {
  return {
    processId,
    renewal: `${renewal}`,
    lease: LEASE,
    queues: [],
    quiet: false,
    connected: false,
    overdue: false,
    request: null,
  }
}

test('P1 a process is silent when its renewals stand still for its lease, counted from the first answer', () => {
  const silence = new Silence()
  expect(silence.note([seen(1, 5), seen(2, 9)], 100)).toBe(0)
  silence.note([seen(1, 5), seen(2, 10)], 900)
  expect(silence.over(1_099)).toEqual([])
  expect(silence.next(1_000)).toBe(100)
  silence.note([seen(1, 5), seen(2, 10)], 1_100)
  expect(silence.over(1_100)).toEqual([{ processId: 1, renewal: '5' }])
  expect(silence.next(1_100)).toBe(800)
  silence.note([seen(1, 6), seen(2, 10)], 1_200)
  expect(silence.over(1_200)).toEqual([])
})

test('P1 one that was not looked at for long is judged by what the next look shows', () => {
  const silence = new Silence()
  silence.note([seen(1, 5)], 0)
  silence.note([seen(1, 700)], 100 * LEASE)
  expect(silence.over(100 * LEASE)).toEqual([])
})

test('those that are gone are counted', () => {
  const silence = new Silence()
  expect(silence.note([seen(1, 0), seen(2, 0)], 0)).toBe(0)
  expect(silence.note([seen(2, 0), seen(3, 0)], 1)).toBe(1)
  expect(silence.note([], 2)).toBe(2)
  expect(silence.next(3)).toBe(Number.POSITIVE_INFINITY)
})

import { describe, expect, it } from 'vitest'
import { numberOrMoment } from '../../src/cli/enqueue/moment.ts'

describe('numbers and moments', () => {
  it.each([
    ['2011-10-11 13:45:40.276000+02:00', Date.UTC(2011, 9, 11, 11, 45, 40, 276)],
    ['2011-10-11T13:45:40.276123Z', Date.UTC(2011, 9, 11, 13, 45, 40, 276) + 0.123],
    ['2011-10-11T13:45:40,5-0330', Date.UTC(2011, 9, 11, 17, 15, 40, 500)],
    ['2011-10-11 13:45+02', Date.UTC(2011, 9, 11, 11, 45)],
    ['2011-10-11', Date.UTC(2011, 9, 11)],
    ['1969-12-31T23:59:59.5Z', -500],
    [' 17 ', 17],
    ['-1.5e3', -1500],
    ['.5', 0.5],
    [12, 12],
  ])('reads %j', (text, ms) => {
    expect(numberOrMoment(text)).toBeCloseTo(ms, 3)
  })

  it('keeps microseconds apart', () => {
    const [one, other] = ['2026-01-01 10:00:00.000001+01', '2026-01-01 10:00:00.000002+01'].map(
      numberOrMoment,
    )
    expect(other! - one!).toBeCloseTo(0.001, 3)
  })

  it.each([
    '',
    'yesterday',
    '2011-02-30',
    '2011-10-11T25:00:00Z',
    '2011-10-11T13:45:40+99:00',
    '1e999',
    'NaN',
    '0x10',
    '9007199254740993',
    null,
    true,
    Number.POSITIVE_INFINITY,
  ])('refuses %j', (text) => {
    expect(numberOrMoment(text)).toBeUndefined()
  })
})

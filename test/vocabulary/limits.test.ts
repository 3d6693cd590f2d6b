import { describe, expect, test } from 'vitest'
import type { Limits } from '../../src/limits.ts'
import { defineQueue } from '../../src/queue.ts'

const limitsOf = (limits: unknown) => defineQueue('orders', { limits: limits as Limits }).limits

describe('limits', () => {
  test.each([
    { concurrency: 1 },
    { rate: { jobs: 100, per: 60 } },
    { rate: { jobs: 1_000_000, per: 0.001 } },
    { concurrency: 5, tenant: { concurrency: 2, rate: { jobs: 1, per: 2_678_400 } } },
  ])('are kept: %o', (limits) => {
    expect(limitsOf(limits)).toEqual(limits)
  })

  test.each([[undefined], [{}], [{ tenant: {} }], [{ concurrency: undefined, rate: undefined }]])(
    'that limit nothing are none: %o',
    (limits) => {
      expect(limitsOf(limits)).toBeUndefined()
    },
  )

  test.each([
    [3, 'queue "orders": limits: the options must be an object, not 3'],
    [null, 'queue "orders": limits: the options must be an object, not null'],
    [{ concurency: 1 }, 'unknown option `concurency`, did you mean `concurrency`?'],
    [{ concurrency: 0 }, 'limits: concurrency must be a whole number from 1 to 1000000, not 0'],
    [{ concurrency: null }, 'limits: concurrency must be a whole number from 1 to 1000000, not null'],
    [{ rate: 5 }, 'limits: rate: the options must be an object, not 5'],
    [{ rate: { jobs: 1.5, per: 1 } }, 'limits: rate: jobs must be a whole number from 1 to 1000000, not 1.5'],
    [{ rate: { jobs: 5 } }, 'rate: per must be a number of seconds from 0.001 to 2678400, not undefined'],
    [{ rate: { jobs: 5, per: 0 } }, 'not 0'],
    [{ rate: { jobs: 5, per: Number.NaN } }, 'not NaN'],
    [{ rate: { jobs: 5, per: '60' } }, 'not "60"'],
    [{ tenant: 5 }, 'limits: tenant: the options must be an object, not 5'],
    [{ tenant: { tenant: {} } }, 'limits: tenant: unknown option `tenant`'],
    [{ tenant: { rate: { jobs: 0, per: 1 } } }, 'limits: tenant: rate: jobs must be a whole number'],
  ])('that could not do what they say are refused: %o', (limits, message) => {
    expect(() => limitsOf(limits)).toThrow(message)
  })
})

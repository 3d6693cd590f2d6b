import { describe, expect, test } from 'vitest'
import { defineQueue, isQueue, type Queue } from '../../src/queue.ts'
import { defaultRetryIn } from '../../src/retry.ts'

describe('R8 a queue', () => {
  test('has these defaults', () => {
    expect(defineQueue('orders')).toEqual({
      name: 'orders',
      shards: 16,
      namedShards: undefined,
      batchSize: 1,
      maxRetryCount: 25,
      maxCrashes: 3,
      maxPayloads: undefined,
      maxBytes: 4 * 1024 * 1024,
      timeout: undefined,
      transactional: false,
      retryIn: defaultRetryIn,
      perform: undefined,
    })
  })

  test('keeps what it is given, and can’t be changed', () => {
    const options = {
      shards: 16_384,
      batchSize: 10_000,
      maxRetryCount: 0,
      maxCrashes: 1,
      maxPayloads: 1,
      maxBytes: 1,
      timeout: 1,
      transactional: true as const,
      retryIn: () => 1,
      onDeath: () => {},
      perform: () => {},
    }
    const queue = defineQueue('orders', options)
    expect(queue).toEqual({ name: 'orders', namedShards: 16_384, ...options })
    expect(() => Object.assign(queue, { shards: 2 })).toThrow(TypeError)
    expect(isQueue(queue)).toBe(true)
  })
})

test('options that depend on the job know the type of its payloads', () => {
  const queue = defineQueue<{ to: string }>('mails', {
    maxRetryCount: ({ headers }) => (headers.at(-1)?.urgent ? 3 : 25),
    timeout: ({ payloads }) => 1_000 * payloads[0]!.to.length,
    retryIn: (retryCount, error, { payloads }) =>
      error instanceof RangeError ? payloads.length : retryCount,
    onDeath: ({ payload }) => payload?.to.toUpperCase(),
  })
  const anyQueue: Queue = queue
  expect(isQueue(anyQueue)).toBe(true)
  // @ts-expect-error: payloads have no such field
  defineQueue<{ to: string }>('mails', { timeout: ({ payloads }) => payloads[0]!.size })
  // @ts-expect-error: not a number
  defineQueue<{ to: string }>('mails', { maxRetryCount: ({ payloads }) => payloads[0]!.to })
  // @ts-expect-error: payloads have no such field
  defineQueue<{ to: string }>('mails', { onDeath: ({ payload }) => payload?.size })
})

describe('the name of a queue', () => {
  test.each(['x', 'é'.repeat(127), '😀', 'has space and "quotes"', ' '])('may be any text: %s', (name) => {
    expect(defineQueue(name).name).toBe(name)
  })

  test.each<[string, unknown, string]>([
    ['empty', '', 'must not be empty'],
    ['very long', 'é'.repeat(256), 'must be at most 511 bytes, not 512'],
    ['no text', 7, 'must be text, not 7'],
    ['missing', undefined, 'must be text, not undefined'],
    ['with \\u0000', 'a\u0000', 'must be well-formed text without \\u0000'],
    ['with an unpaired surrogate', '\udc00', 'must be well-formed text'],
  ])('is refused: %s', (_name, name, problem) => {
    expect(() => defineQueue(name as string)).toThrow(
      expect.objectContaining({
        code: 'LOCKSTEP_BAD_QUEUE',
        message: expect.stringContaining(`the name of a queue ${problem}`),
      }),
    )
  })
})

describe('a bad option', () => {
  const bad = (options: object) => {
    try {
      defineQueue('orders', options)
    } catch (error) {
      expect(error).toMatchObject({ name: 'OptionError', code: 'LOCKSTEP_BAD_OPTION' })
      return (error as Error).message
    }
    throw new Error('was taken')
  }

  test.each([
    [{ shards: 0 }, 'shards must be a whole number from 1 to 16384, not 0'],
    [{ shards: 16_385 }, 'shards must be a whole number from 1 to 16384, not 16385'],
    [{ batchSize: 1.5 }, 'batchSize must be a whole number from 1 to 10000, not 1.5'],
    [{ batchSize: '10' }, 'batchSize must be a whole number from 1 to 10000, not "10"'],
    [{ maxRetryCount: -1 }, 'maxRetryCount must be a whole number from 0 to 2147483647, not -1'],
    [
      { maxRetryCount: Number.POSITIVE_INFINITY },
      'maxRetryCount must be a whole number from 0 to 2147483647, not Infinity',
    ],
    [{ maxCrashes: 0 }, 'maxCrashes must be a whole number from 1 to 32767, not 0'],
    [{ maxPayloads: 0 }, 'maxPayloads must be a whole number from 1 to 2147483647, not 0'],
    [{ maxBytes: 0 }, 'maxBytes must be a whole number from 1 to 2147483647, not 0'],
    [
      { transactional: 'no' as never },
      'transactional must be true, false, or what transactionsOf(…) of pg-lockstep/drizzle and the like gives, not "no"',
    ],
    [{ timeout: Number.NaN }, 'timeout must be a whole number from 1 to 2147483647, not NaN'],
    [{ retryIn: 5 }, 'retryIn must be a function, not 5'],
    [{ perform: 'later' }, 'perform must be a function, not "later"'],
  ])('out of range: %j', (options, problem) => {
    expect(bad(options)).toBe(`queue "orders": ${problem}`)
  })

  test.each([
    ['slot', /^queue "orders": unknown option `slot`, the known ones are shards, batchSize/],
    ['shard', /did you mean `shards`\?$/],
    ['batchsize', /did you mean `batchSize`\?$/],
    ['maxRetries', /the known ones are shards, .*maxRetryCount/],
    ['preform', /did you mean `perform`\?$/],
    [
      'parallelism',
      /unknown option `parallelism`, the known ones are shards, batchSize, maxPayloads, maxBytes, maxRetryCount/,
    ],
  ])('unknown, with a suggestion: %s', (name, message) => {
    expect(bad({ [name]: 1 })).toMatch(message)
  })
})

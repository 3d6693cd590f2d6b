import { expect, test, vi } from 'vitest'
import { type Batch, Discard, defineQueue, type TransactionalContext } from '../../src/index.ts'
import { createContext } from '../../src/testing/index.ts'

const silent = { debug() {}, info() {}, warn() {}, error() {} }

test('a handler runs without any database, and what it does with its context can be seen', async () => {
  const query = vi.fn()
  const queue = defineQueue<{ status: string }>('orders', {
    transactional: true,
    async perform(batch, { tx, jobs, fail, logger }) {
      for (const [id, payloads] of batch) {
        if (jobs.get(id)!.retryCount >= 0) fail(id, new Discard('once is enough'))
        else await tx.query('UPDATE orders SET status = $1', [payloads.at(-1)!.status])
        logger.info({ id }, 'done')
      }
    },
  })
  const batch = new Map([
    ['a', [{ status: 'created' }, { status: 'paid' }]],
    ['b', [{ status: 'sent' }]],
  ])
  const tx = { query } as never
  const context = createContext(batch, { tx, jobs: { b: { retryCount: 0 } }, logger: silent })
  await queue.perform!(batch, context)
  expect(query.mock.calls).toEqual([['UPDATE orders SET status = $1', ['paid']]])
  expect(context.failed).toEqual(new Map([['b', expect.any(Discard)]]))
})

test('jobs are those of a first run, with what is given', () => {
  const batch = new Map([['a', ['v', 'w']]])
  const { jobs, signal, abort } = createContext(batch, {
    jobs: { a: { crashes: 2, headers: [{ by: 'web' }, null] } },
  })
  expect(jobs.get('a')).toEqual({
    retryCount: -1,
    performIn: expect.any(Date),
    scores: [expect.any(Number), expect.any(Number)],
    headers: [{ by: 'web' }, null],
    error: null,
    tenant: null,
    crashes: 2,
    fence: 1,
  })
  expect(signal.aborted).toBe(false)
  abort(new Error('late'))
  expect(signal.reason).toEqual(new Error('late'))
})

test('ids that the batch does not have are refused', () => {
  const batch = new Map([['a', ['v']]])
  expect(() => createContext(batch, { jobs: { b: {} } })).toThrow('createContext: the batch has no id "b"')
  expect(() => createContext(batch).fail('b', new Error('no'))).toThrow(
    'context.fail: the batch has no id "b"',
  )
})

test.each<[string, unknown, unknown, RegExp]>([
  ['an option', undefined, { job: {} }, /^createContext: unknown option `job`, did you mean `jobs`\?$/],
  [
    'a field of a job',
    undefined,
    { jobs: { a: { retrycount: 1 } } },
    /^createContext: jobs\["a"\]: unknown .*`retryCount`\?$/,
  ],
  ['a Map of jobs', undefined, { jobs: new Map() }, /^createContext: jobs must be an object, not a Map$/],
  [
    'an object as batch',
    { a: ['v'] },
    {},
    /^createContext: the batch must be a Map of ids to payloads, not an object$/,
  ],
  [
    'a payload in place of a list',
    new Map([['a', 'v']]),
    {},
    /^createContext: the payloads of "a" must be a list, not "v"$/,
  ],
  [
    'a logger',
    undefined,
    { logger: { info() {} } },
    /^createContext: logger must have .* has no debug\(\), warn\(\), error\(\)$/,
  ],
])('a mistake in %s is refused', (_, batch = new Map([['a', ['v']]]), options, told) => {
  expect(() => createContext(batch as never, options as never)).toThrow(
    expect.objectContaining({ code: 'LOCKSTEP_BAD_OPTION', message: expect.stringMatching(told) }),
  )
})

test('it has the type of a transactional context', () => {
  const batch: Batch<number> = new Map([['a', [1]]])
  const context: TransactionalContext<{ insert(): void }> = createContext(batch, { tx: { insert() {} } })
  expect(context.tx).toBeDefined()
})

import { afterEach, describe, expect, test } from 'vitest'
import { eventually, useWorkers } from '../support/worker-environment.ts'
import { HOSTILE } from './hostile.ts'

const LATER = new Date('2999-01-01')
const env = useWorkers()

/** Shows that the tables exist, and contain only what belongs there. */
async function tables(): Promise<unknown> {
  const [row] = await env.sql(
    `SELECT (SELECT count(*)::int FROM lockstep.jobs) AS jobs,
       (SELECT count(*)::int FROM lockstep.payloads) AS payloads,
       (SELECT count(*)::int FROM lockstep.morgue) AS morgue`,
  )
  return row
}

afterEach(() => env.sql('TRUNCATE lockstep.jobs, lockstep.payloads, lockstep.morgue'))

describe('hostile text in a job', () => {
  const payloadOf = (text: string) => ({
    [`key ${text}`]: text,
    nested: Object.fromEntries([[text, [text]]]),
  })

  test('comes to the handler as it was pushed, by enqueue or from SQL, as id and payload', async () => {
    const handed = new Map<string, unknown>()
    const queue = env.queue({
      batchSize: 100,
      perform(batch) {
        for (const [id, payloads] of batch) handed.set(id, payloads)
      },
    })
    await env.lockstep.enqueue(
      queue,
      HOSTILE.map((id) => ({ id, payload: payloadOf(id), score: 1 })),
    )
    for (const text of HOSTILE)
      await env.sql('SELECT lockstep.enqueue($1, $2, $3, 2)', [queue.name, text, JSON.stringify(text)])
    await env.work({ queues: [queue] })
    await eventually(() => expect(handed.size).toBe(HOSTILE.length))
    for (const text of HOSTILE) expect(handed.get(text)).toEqual([payloadOf(text), text])
    await eventually(async () => expect(await tables()).toEqual({ jobs: 0, payloads: 0, morgue: 0 }))
  })

  test('is found, killed, requeued and deleted by its id alone', async () => {
    const queue = env.queue({})
    const library = env.lockstep
    await library.enqueue(
      queue,
      HOSTILE.map((id) => ({ id, payload: payloadOf(id), performIn: LATER })),
    )
    for (const id of HOSTILE) {
      const filter = { ids: [id], id: { from: id, to: id } }
      const found = await library.find(queue, { ...filter, by: 'id' })
      expect(found.items.map((job) => [job.id, job.payloads[0]!.payload])).toEqual([[id, payloadOf(id)]])
      expect(await library.kill(queue, filter)).toEqual({ done: 1, total: 1 })
      expect(await library.findDead(queue, filter)).toMatchObject({ items: [{ id, payload: payloadOf(id) }] })
      expect(await library.requeue(queue, filter)).toEqual({ done: 1, total: 1 })
      expect(await library.performNow(queue, filter)).toEqual({ done: 1, total: 1 })
      expect(await library.delete(queue, filter)).toEqual({ done: 1, total: 1 })
    }
    expect(await tables()).toEqual({ jobs: 0, payloads: 0, morgue: 0 })
  })

  test('leads from page to page, in bytewise order', async () => {
    const queue = env.queue({})
    await env.lockstep.enqueue(
      queue,
      HOSTILE.map((id) => ({ id, performIn: LATER })),
    )
    const seen: string[] = []
    let after: string | undefined
    do {
      const page = await env.lockstep.find(queue, { by: 'id', limit: 1, after })
      seen.push(...page.items.map(({ id }) => id))
      after = page.next
    } while (after)
    expect(seen).toEqual(HOSTILE.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))))
  })

  test.each([
    ['an id with a null', { id: 'a\u0000b' }],
    ['an id that is half a character', { id: '\ud800' }],
    ['an id of 1,025 bytes', { id: 'é'.repeat(513) }],
    ['an id that is an object', { id: { toString: () => String(1) } }],
    ['a payload with a null', { id: 'a', payload: 'x\u0000' }],
    ['a key with a null', { id: 'a', payload: { 'x\u0000': 1 } }],
    ['a payload that is half a character', { id: 'a', payload: ['\udc00'] }],
    ['a payload that writes itself', { id: 'a', payload: { toJSON: () => '\ud800' } }],
    ['a score that is text', { id: 'a', score: '1; DROP TABLE lockstep.jobs' }],
    ['a lane that is text', { id: 'a', lane: '0' }],
    ['an unknown field', { id: 'a', 'x\u001b[2J': 1 }],
  ])('is refused by name: %s', async (_, job) => {
    const push = env.lockstep.enqueue(env.queue({}), [{ id: 'fine' }, job as never])
    await expect(push).rejects.toMatchObject({ code: 'LOCKSTEP_BAD_JOB', index: 1 })
    expect(await tables()).toEqual({ jobs: 0, payloads: 0, morgue: 0 })
  })

  test.each(['\u0000', 'a\u0000b'])('is refused where a filter could not be asked for: %j', async (id) => {
    await expect(env.lockstep.find(env.queue({}), { ids: [id] })).rejects.toThrow(/without \\u0000/)
  })

  test.each([
    ['bm90IGEgY3Vyc29y'],
    [`'; DROP TABLE lockstep.jobs; --`],
    [Buffer.from(JSON.stringify(['id', 'a\u0000'])).toString('base64url')],
    [Buffer.from(JSON.stringify(['performIn', '1; SELECT 1', 'a'])).toString('base64url')],
    [Buffer.from(JSON.stringify(['performIn', '9'.repeat(19), 'a'])).toString('base64url')],
  ])('is no cursor: %s', async (after) => {
    const queue = env.queue({})
    await env.lockstep.enqueue(queue, { id: 'a', performIn: LATER })
    for (const by of ['id', 'performIn'] as const)
      await expect(env.lockstep.find(queue, { by, after })).rejects.toThrow(/^after must be/)
  })
})

describe('a hostile error', () => {
  const gettersThrow = Object.defineProperties(new Error('x'), {
    stack: {
      get: () => {
        throw new Error('no stack')
      },
    },
    message: {
      get: () => {
        throw new Error('no message')
      },
    },
  })
  const named = Object.assign(new Error('x'), {
    name: `'; DROP\u001b[2J`,
    stack: `'; DROP\u001b[2J\n at \u202e`,
  })

  const { proxy: revoked, revoke } = Proxy.revocable({}, {})
  revoke()
  const { proxy: revokedFunction, revoke: revokeFunction } = Proxy.revocable(() => {}, {})
  revokeFunction()

  const CASES: readonly [what: string, thrown: unknown, stored: RegExp][] = [
    ['all hostile text', new Error(HOSTILE.join('\n')), /DROP TABLE lockstep\.jobs[\s\S]*😀/],
    ['a hostile name and stack', named, /^'; DROP.\[2J: x\n'; DROP.\[2J\n at .$/],
    ['nulls and halves of characters', new Error('a\u0000b\ud800c'), /a\ufffdb\ufffdc/],
    ['ten million characters', new Error('x'.repeat(10_000_000)), /^Error: x{7000,8000}…$/],
    ['getters that throw', gettersThrow, /can’t be shown as text/],
    ['a stack that is no text', Object.assign(new Error('plain'), { stack: { evil: 1 } }), /^Error: plain$/],
    ['an object without a prototype', Object.create(null), /can’t be shown as text/],
    ['a revoked proxy', revoked, /can’t be shown as text/],
    ['a revoked function', revokedFunction, /can’t be shown as text/],
    [
      'a message that is no text',
      Object.assign(new Error('x'), { message: Object.create(null) }),
      /can’t be/,
    ],
    ['a message that is a symbol', Object.assign(new Error('x'), { message: Symbol('q') }), /Symbol\(q\)/],
    ['a symbol', Symbol('s'), /^Symbol\(s\)$/],
    ['nothing', undefined, /^undefined was thrown$/],
    ['a code of the server’s', Object.assign(new Error('mine'), { code: '40P01' }), /mine/],
    ['a code of a broken connection', Object.assign(new Error('mine'), { code: 'ECONNRESET' }), /mine/],
    ['a code of ours', Object.assign(new Error('mine'), { code: 'LOCKSTEP_CONNECTION' }), /mine/],
    ['a code that every object has', Object.assign(new Error('mine'), { code: 'constructor' }), /mine/],
  ]

  test('is stored as a failure like any other, in a transaction or not', async () => {
    const queues = CASES.flatMap(([what, thrown, stored]) => {
      const perform = () => {
        throw thrown
      }
      const retryIn = () => 1000
      return [env.queue({ perform, retryIn }), env.transactional({ perform, retryIn })].map((queue) => ({
        queue,
        what,
        stored,
      }))
    })
    for (const { queue } of queues) await env.lockstep.enqueue(queue, { id: 'a' })
    await env.work({ queues: queues.map(({ queue }) => queue), slots: 5 })
    for (const { queue, what, stored } of queues)
      await eventually(async () => {
        const [job] = (await env.lockstep.find(queue)).items
        expect(job, what).toMatchObject({
          retryCount: 0,
          state: 'waiting',
          error: expect.stringMatching(stored),
        })
      })
  })
})

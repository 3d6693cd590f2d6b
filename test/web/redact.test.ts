import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { Lockstep } from '../../src/lockstep.ts'
import { lockstepWeb, type WebOptions } from '../../src/web/index.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'
import { serve } from './site.ts'

let env: StoreEnvironment
let queue: TestQueue
const error = vi.fn()

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env.close())
beforeEach(async () => {
  queue = await env.queue()
  error.mockReset()
})

/** With letters: figures alone may also be a part of a time or a score. */
const CARD = 'visa-4111'
const BIG = `{"card": "${CARD}", "n": 12345678901234567890}`

/** Every payload that the API shows: of a list, a job, and the morgue. */
async function shown(redact: WebOptions['redact'], query = ''): Promise<(string | null)[]> {
  const logger = { debug() {}, info() {}, warn() {}, error }
  const lockstep = new Lockstep({ pool: env.database.pool, logger })
  const site = await serve(lockstepWeb(lockstep, { access: 'open', redact }).node)
  for (const id of ['alive', 'dead'])
    await env.query('SELECT lockstep.enqueue($1, $2::text, $3::jsonb)', [queue.queue.name, id, BIG])
  await env.lockstep.kill(queue.queue, { ids: ['dead'] })
  const path = `/api/v1/queues/${encodeURIComponent(queue.queue.name)}`
  const answers = await Promise.all(
    [`/jobs?${query}`, `/job?id=alive&${query}`, `/dead?${query}`].map((rest) => site.ask(`${path}${rest}`)),
  )
  for (const { text } of answers) if (redact) expect(text).not.toContain(CARD)
  const [list, job, dead] = answers.map(({ json }) => json.items[0])
  return [list.payloads.first[0].json, job.payloads.first[0].json, dead.payload.json]
}

const three = <T>(value: T) => [value, value, value]

describe('redact', () => {
  it('replaces what is shown, everywhere, and knows the queue and the id', async () => {
    const about = vi.fn()
    const redact: WebOptions['redact'] = (payload, place) => {
      about(place)
      return { ...(payload as object), card: '…' }
    }
    expect(await shown(redact)).toEqual(three('{"n":12345678901234567000,"card":"…"}'))
    expect(about.mock.calls.map(([{ queue, id }]) => [queue, id]).sort()).toEqual([
      [queue.queue.name, 'alive'],
      [queue.queue.name, 'alive'],
      [queue.queue.name, 'dead'],
    ])
  })

  it('may change the payload in place', async () => {
    const redact = (payload: unknown) => Object.assign(payload as object, { card: 1 })
    expect(await shown(redact)).toEqual(three('{"n":12345678901234567000,"card":1}'))
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('no such queue')
      },
    ],
    ['returns nothing', () => undefined],
    ['returns a promise', async (payload: unknown) => payload],
    // biome-ignore lint/suspicious/noThenProperty: like a promise of another library
    ['returns something like a promise', (payload: unknown) => ({ payload, then() {} })],
    ['rejects', () => Promise.reject(new Error('later'))],
    ['returns what JSON lacks', () => () => 1],
    ['returns a bigint', () => 1n],
  ])('that %s hides the payload', async (_, redact) => {
    expect(await shown(redact)).toEqual(three(null))
    expect(JSON.stringify(error.mock.calls)).not.toContain(CARD)
  })

  it('sees all of a payload that is cut afterwards', async () => {
    const redact = (payload: unknown) => ({ ...(payload as object), card: '…' })
    expect(await shown(redact, 'length=36')).toEqual(three('{"n":12345678901234567000,"card":"…"'))
  })

  it('keeps all digits of what it leaves alone', async () => {
    const lockstep = new Lockstep({ pool: env.database.pool })
    const site = await serve(lockstepWeb(lockstep, { access: 'open', redact: (payload) => payload }).node)
    await env.query('SELECT lockstep.enqueue($1, $2::text, $3::jsonb)', [queue.queue.name, 'a', BIG])
    const { json } = await site.ask(`/api/v1/queues/${encodeURIComponent(queue.queue.name)}/jobs`)
    expect(json.items[0].payloads.first[0].json).toContain('12345678901234567890')
  })
})

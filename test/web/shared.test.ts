import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { Shared } from '../../src/serving/shared.ts'
import { lockstepWeb } from '../../src/web/index.ts'
import { openStore } from '../support/store-environment.ts'
import { serve } from './site.ts'

describe('what is shared', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'Date'] }))
  afterEach(() => void vi.useRealTimers())

  /** Takes so many ms, and returns how often it was called. */
  function taking(ms: number) {
    let calls = 0
    const shared = new Shared(async () => {
      calls += 1
      vi.advanceTimersByTime(ms)
      return calls
    })
    return async () => (await shared.get()).value
  }

  it('is read again after two hundred times as long as it took', async () => {
    const get = taking(300)
    expect([await get(), await get()]).toEqual([1, 1])
    vi.advanceTimersByTime(59_999)
    expect(await get()).toBe(1)
    vi.advanceTimersByTime(2)
    expect(await get()).toBe(2)
  })

  it('is kept for a second at least, and ten minutes at most', async () => {
    const quick = taking(0)
    await quick()
    vi.advanceTimersByTime(999)
    expect(await quick()).toBe(1)
    vi.advanceTimersByTime(2)
    expect(await quick()).toBe(2)
    const slow = taking(20_000)
    await slow()
    vi.advanceTimersByTime(600_001)
    expect(await slow()).toBe(2)
  })

  it('says when it was read', async () => {
    vi.setSystemTime(1_000_000)
    const shared = new Shared(async () => 1)
    vi.setSystemTime(2_000_000)
    expect((await shared.get()).at).toEqual(new Date(2_000_000))
    vi.setSystemTime(2_000_500)
    expect((await shared.get()).at).toEqual(new Date(2_000_000))
  })

  it('is read once for all who ask meanwhile, and a failure is not kept', async () => {
    let reject!: (error: Error) => void
    const promise = new Promise<number>((_, fail) => {
      reject = fail
    })
    const read = vi.fn().mockReturnValueOnce(promise).mockResolvedValueOnce(7)
    const shared = new Shared<number>(read)
    const asked = [shared.get(), shared.get()]
    reject(new Error('no'))
    for (const one of asked) await expect(one).rejects.toThrow('no')
    expect(read).toHaveBeenCalledTimes(1)
    expect((await shared.get()).value).toBe(7)
  })
})

it('fifty requests at once count the jobs once', async () => {
  const env = await openStore()
  const query = vi.spyOn(pg.Client.prototype, 'query')
  onTestFinished(() => query.mockRestore())
  const site = await serve(lockstepWeb(env.lockstepAnew(), { access: 'open' }).node)
  const paths = ['/', '/api/v1/stats', '/api/v1/queues', '/api/v1/processes', '/api/v1/stats']
  await Promise.all(Array.from({ length: 50 }, (_, n) => site.ask(paths[n % paths.length]!)))
  const texts = query.mock.calls.map(([given]) => (given as unknown as { text: string }).text)
  const times = (what: string) => texts.filter((text) => text.includes(what)).length
  expect([times('queue_stats'), times('process_list'), times('DISTINCT m.queue_id')]).toEqual([1, 1, 1])
  await env.close()
})

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { isFor } from '../../src/call.ts'
import { type ClientMiddleware, clientMiddlewareFor } from '../../src/enqueue/middleware.ts'
import { JobError, OptionError } from '../../src/errors.ts'
import type { NewJob } from '../../src/job.ts'
import { Lockstep } from '../../src/lockstep.ts'
import { openStore, type StoreEnvironment, type TestQueue } from '../support/store-environment.ts'
import { eventually } from '../support/worker-environment.ts'

let env: StoreEnvironment
let testQueue: TestQueue

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
beforeEach(async () => {
  testQueue = await env.queue()
})

const A: NewJob = { id: 'a', payload: 'v', score: 1 }
const B: NewJob = { id: 'b', payload: 'v', score: 1 }

describe('R14 a client middleware', () => {
  test('goes around the store, the first outermost', async () => {
    const seen: string[] = []
    const named = (name: string): ClientMiddleware => {
      return async ({ queue, jobs }, next) => {
        seen.push(`${name} ${queue.name === testQueue.queue.name} ${await testQueue.countJobs()}`)
        await next(jobs)
        seen.push(`${name} ${await testQueue.countJobs()}`)
      }
    }
    const lockstep = env.lockstepAnew(named('m1'), named('m2'))
    expect(await lockstep.enqueue(testQueue.queue, [A, B])).toBe(2)
    expect(seen).toEqual(['m1 true 0', 'm2 true 0', 'm2 2', 'm1 2'])
  })

  test('changes jobs', async () => {
    const lockstep = env.lockstepAnew(({ jobs }, next) =>
      next(jobs.map((job) => ({ ...job, payload: 'w', lane: 3 }))),
    )
    expect(await lockstep.enqueue(testQueue.queue, [A, B])).toBe(2)
    expect(await testQueue.set('b')).toEqual(['w[1]'])
    expect(await testQueue.job('b')).toMatchObject({ lane: 3 })
  })

  test('knows whether the call is for a queue', async () => {
    const other = await env.queue()
    const lockstep = env.lockstepAnew((call, next) => (isFor(testQueue.queue, call) ? next([A]) : next([])))
    expect(await lockstep.enqueue(testQueue.queue, [A, B])).toBe(1)
    expect(await lockstep.enqueue(other.queue, [A, B])).toBe(0)
  })

  test('of one queue lets the calls of others pass', async () => {
    const other = await env.queue()
    const lockstep = env.lockstepAnew(clientMiddlewareFor(testQueue.queue, (_call, next) => next([A])))
    expect(await lockstep.enqueue(testQueue.queue, [A, B])).toBe(1)
    expect(await lockstep.enqueue(other.queue, [A, B])).toBe(2)
  })

  test('changes them in place too', async () => {
    const lockstep = env.lockstepAnew(async ({ jobs }, next) => {
      for (const job of jobs) (job.payload as unknown[]).push('traced')
      await next(jobs)
    })
    await lockstep.enqueue(testQueue.queue, { id: 'a', payload: ['v'] as unknown[], score: 1 })
    expect((await (await testQueue.claimer()).take()).payloads).toEqual([['v', 'traced']])
  })

  test('adds and drops jobs', async () => {
    const lockstep = env.lockstepAnew(({ jobs }, next) =>
      next([...jobs.filter(({ id }) => id !== 'a'), { id: 'c' }]),
    )
    expect(await lockstep.enqueue(testQueue.queue, [A, B])).toBe(2)
    expect(
      await Promise.all(['a', 'b', 'c'].map(async (id) => (await testQueue.findJob(id)) !== undefined)),
    ).toEqual([false, true, true])
  })

  test('that drops all, or does not call next, stores nothing', async () => {
    expect(await env.lockstepAnew((_call, next) => next([])).enqueue(testQueue.queue, A)).toBe(0)
    expect(await env.lockstepAnew(() => {}).enqueue(testQueue.queue, A)).toBe(0)
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('that throws stores nothing before next, and what it stored after', async () => {
    const before = env.lockstepAnew(() => {
      throw new Error('not today')
    })
    await expect(before.enqueue(testQueue.queue, A)).rejects.toThrow('not today')
    expect(await testQueue.countJobs()).toBe(0)
    const after = env.lockstepAnew(async ({ jobs }, next) => {
      await next(jobs)
      throw new Error('too late')
    })
    await expect(after.enqueue(testQueue.queue, A)).rejects.toThrow('too late')
    expect(await testQueue.countJobs()).toBe(1)
  })

  test('that does not await next: enqueue ends with it', async () => {
    const lockstep = env.lockstepAnew(({ jobs }, next) => void next(jobs))
    expect(await lockstep.enqueue(testQueue.queue, [A, B])).toBe(2)
    const failing = env.lockstepAnew(({ jobs }, next) => {
      next([...jobs, { ...A, lane: -1 }]).catch(() => {})
    })
    await expect(failing.enqueue(testQueue.queue, A)).rejects.toThrow(JobError)
  })

  test('that does not await next: what goes wrong there is the error of enqueue, and no process ends of it', async () => {
    const bad = [{ ...A, lane: -1 }]
    const waits: ClientMiddleware = async (_call, next) => {
      void next(bad)
      await sleep(5)
    }
    for (const middleware of [(_call, next) => void next(bad), waits] satisfies ClientMiddleware[]) {
      const pushed = env.lockstepAnew(middleware).enqueue(testQueue.queue, A)
      await expect(pushed).rejects.toThrow(JobError)
    }
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('that calls next after its enqueue has ended is refused', async () => {
    const late: unknown[] = []
    const lockstep = env.lockstepAnew(({ jobs }, next) => {
      setTimeout(() => next(jobs).catch((error) => late.push(error)), 20)
    })
    expect(await lockstep.enqueue(testQueue.queue, A)).toBe(0)
    await eventually(() => expect(late).toHaveLength(1))
    expect(late[0]).toMatchObject({ code: 'LOCKSTEP_CLOSED' })
    expect(await testQueue.countJobs()).toBe(0)
  })

  test.each([undefined, null, A])('that gives next %j, which is no list, is told so', async (given) => {
    const lockstep = env.lockstepAnew((_call, next) => next(given as unknown as NewJob[]))
    await expect(lockstep.enqueue(testQueue.queue, B)).rejects.toThrow(OptionError)
  })

  test.each([() => {}, [42], 'all'])('that is none is refused', (middleware) => {
    expect(() => new Lockstep({ connectionString: 'postgres:///', middleware: middleware as never })).toThrow(
      OptionError,
    )
  })

  test('R1 gives jobs their id, and mends what could not be stored', async () => {
    const lockstep = env.lockstepAnew(({ jobs }, next) =>
      next(jobs.map(({ id: _, lane: __, ...job }) => ({ ...job, id: `by ${job.payload}` }))),
    )
    const jobs = [{ payload: 'a' }, { id: '', payload: 'b' }, { id: 'c', payload: 'c', lane: -1 }]
    expect(await lockstep.enqueue(testQueue.queue, jobs as NewJob[])).toBe(3)
    for (const payload of ['a', 'b', 'c']) expect(await testQueue.set(`by ${payload}`)).toHaveLength(1)
  })

  test('R1 sees jobs alone: what is none is the caller’s error', async () => {
    const lockstep = env.lockstepAnew(({ jobs }, next) => next(jobs.filter(({ id }) => id !== 'a')))
    const pushed = lockstep.enqueue(testQueue.queue, [A, null as unknown as NewJob])
    await expect(pushed).rejects.toMatchObject({ index: 1, field: 'id' })
  })

  const bad = { id: 'bad', lane: -1 }
  test.each<[string, ClientMiddleware, NewJob[], number]>([
    ['that changes nothing', ({ jobs }, next) => next(jobs), [A, B, bad], 2],
    ['that copies the list', ({ jobs }, next) => next([...jobs]), [A, B, bad, bad], 2],
    ['that drops jobs', ({ jobs }, next) => next(jobs.slice(1)), [A, B, bad], 2],
    ['that adds jobs', ({ jobs }, next) => next([B, ...jobs]), [A, bad], 1],
    [
      'that copies each job',
      ({ jobs }, next) => next(jobs.map((job) => ({ ...job, score: 2 }))),
      [A, B, bad],
      2,
    ],
    ['that makes jobs', (_call, next) => next([A, B, A, { ...bad }]), [A], 3],
  ])('R1 %s: an error names the caller’s own index where the job is the caller’s', async (_name, ...rest) => {
    const [middleware, jobs, index] = rest
    const lockstep = env.lockstepAnew(middleware)
    await expect(lockstep.enqueue(testQueue.queue, jobs)).rejects.toMatchObject({
      index,
      field: 'lane',
      message: `jobs[${index}].lane must be a whole number from 0 to 32767, not -1`,
    })
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('R1 that drops jobs: what the server refuses has the caller’s own index too', async () => {
    const lockstep = env.lockstepAnew(({ jobs }, next) => next(jobs.slice(1)))
    // Short as JavaScript writes it, and four times as long as jsonb writes it.
    const long = { id: 'long', payload: Array(900_000).fill(1e21) }
    await expect(lockstep.enqueue(testQueue.queue, [A, B, long])).rejects.toMatchObject({
      index: 2,
      field: 'payload',
    })
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('R1 that makes a bad job gets the error', async () => {
    const caught: unknown[] = []
    const lockstep = env.lockstepAnew(async ({ jobs }, next) => {
      await next([...jobs, { ...A, lane: -1 }]).catch((error) => caught.push(error))
    })
    expect(await lockstep.enqueue(testQueue.queue, [A, B])).toBe(0)
    expect(caught).toEqual([expect.any(JobError)])
    expect(caught[0]).toMatchObject({ index: 2, field: 'lane' })
    expect(await testQueue.countJobs()).toBe(0)
  })

  test('P4 stores in the caller’s transaction', async () => {
    const lockstep = env.lockstepAnew(({ jobs }, next) => next(jobs))
    const tx = await env.transaction()
    await lockstep.enqueue(testQueue.queue, A, { tx })
    await tx.query('ROLLBACK')
    await env.endSessions()
    expect(await testQueue.countJobs()).toBe(0)
  })
})

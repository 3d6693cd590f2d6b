import { expect, test } from 'vitest'
import {
  type Instrumentation,
  Lockstep,
  type ObservedRound,
  OptionError,
  type Spans,
} from '../../src/index.ts'
import { eventually, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

/** An instrument that records everything it hears. Spans are recorded when they end, with their beginning. */
function recorder() {
  const heard: { kind: string; begun: object; end: Record<string, unknown> }[] = []
  const span = (kind: keyof Spans) => (begun: object) => (end: object) =>
    void heard.push({ kind, begun, end: end as Record<string, unknown> })
  const moment = (kind: string) => (told: object) => void heard.push({ kind, begun: told, end: {} })
  const instrument = {
    ...Object.fromEntries(
      (['enqueue', 'claim', 'perform', 'rebalance', 'maintain'] as const).map((kind) => [kind, span(kind)]),
    ),
    ...Object.fromEntries(
      ['renew', 'complete', 'fail', 'die', 'rescue', 'refuse'].map((kind) => [kind, moment(kind)]),
    ),
  } as Instrumentation
  return { instrument, of: (kind: string) => heard.filter((one) => one.kind === kind) }
}

function lockstepWith(...instrumentation: Instrumentation[]): Lockstep {
  const { connectionString, logger } = env
  const lockstep = new Lockstep({ connectionString, logger, instrumentation })
  env.later(() => lockstep.close())
  return lockstep
}

test('an instrument hears of a job from its push to its end, by one fence, and of no payload that lives', async () => {
  const { instrument, of } = recorder()
  const lockstep = lockstepWith(instrument)
  const queue = env.queue({
    maxRetryCount: 1,
    perform: (batch) => {
      if (batch.has('bad')) throw new Error('bad')
    },
  })
  const worker = env.create({ queues: [queue] }, lockstep)
  await worker.start()
  await lockstep.enqueue(queue, [{ id: 'good', payload: 'secret' }])
  await lockstep.enqueue(queue, [{ id: 'bad', payload: 'dies' }])
  await eventually(() => expect(of('die')).toHaveLength(1))
  await eventually(() => expect(of('complete')).toHaveLength(1))

  const isAbout = (id: string) => (rounds: unknown) =>
    (rounds as ObservedRound[]).some((round) => round.id === id)
  const [pushed] = of('enqueue')
  expect(pushed!.begun).toEqual({ queue: queue.name, jobs: 1, tx: false })
  expect(pushed!.end).toEqual({ stored: 1, duration: expect.any(Number) })
  const claimed = of('claim').find(({ end }) => isAbout('good')(end.rounds))!
  const [{ fence }] = (claimed.end.rounds as ObservedRound[]).filter(({ id }) => id === 'good') as [
    ObservedRound,
  ]
  const round = { id: 'good', fence, retryCount: -1, crashes: 0, payloads: 1 }
  const { processId } = worker
  expect(claimed.begun).toMatchObject({ processId, queue: queue.name, lane: 0 })
  expect(claimed.end.rounds).toContainEqual(round)
  const batch = {
    processId,
    queue: queue.name,
    shard: expect.any(Number),
    slot: expect.any(Number),
    rounds: [round],
  }
  const performed = of('perform').filter(({ begun }) =>
    isAbout('good')((begun as { rounds: unknown }).rounds),
  )
  const began = { ...round, performIn: expect.any(Date), waited: expect.any(Number), headers: undefined }
  expect(performed).toEqual([
    {
      kind: 'perform',
      begun: { ...batch, rounds: [began] },
      end: { failed: new Map(), duration: expect.any(Number) },
    },
  ])
  expect(of('complete').map(({ begun }) => begun)).toEqual([{ ...batch, duration: expect.any(Number) }])

  expect(of('fail').map(({ begun }) => begun)).toMatchObject([
    { queue: queue.name, round: { id: 'bad', retryCount: -1 }, error: { message: 'bad' }, retryIn: 0.02 },
    { queue: queue.name, round: { id: 'bad', retryCount: 0 }, error: { message: 'bad' }, retryIn: null },
  ])
  const failed = of('perform').find(({ begun }) => isAbout('bad')((begun as { rounds: unknown }).rounds))!
  expect(failed.end.failed).toEqual(new Map([['bad', new Error('bad')]]))
  expect(of('die').map(({ begun }) => begun)).toMatchObject([{ queue: queue.name, payload: 'dies' }])
  expect(of('rebalance')[0]).toMatchObject({ begun: { processId }, end: { shards: 16, changed: true } })
  expect(JSON.stringify(of('claim').concat(of('perform'), of('complete')))).not.toContain('secret')
})

test('a push that fails ends with its error, and one in a transaction is told as such', async () => {
  const { instrument, of } = recorder()
  const lockstep = lockstepWith(instrument)
  const queue = env.queue({})
  await expect(lockstep.enqueue(queue, { id: '' })).rejects.toThrow()
  const tx = await env.session()
  await tx.query('BEGIN')
  await lockstep.enqueue(queue, [{ id: 'a' }, { id: 'b' }], { tx })
  await tx.query('ROLLBACK')
  expect(of('enqueue')).toMatchObject([
    { begun: { jobs: 1, tx: false }, end: { error: { code: 'LOCKSTEP_BAD_JOB' } } },
    { begun: { jobs: 2, tx: true }, end: { stored: 2 } },
  ])
  expect(of('enqueue')[0]!.end).not.toHaveProperty('stored')
})

test('leases that are renewed, and maintenance, are heard of', async () => {
  const { instrument, of } = recorder()
  const worker = env.create({ queues: [env.queue({ perform() {} })], lease: 500 }, lockstepWith(instrument))
  await env.sql(
    `INSERT INTO lockstep.processes (host, pid, version, slots, queues, lease, expires_at)
     VALUES ('gone', 1, '1', 1, '{}', 500, now())`,
  )
  await worker.start()
  const { processId } = worker
  await eventually(() => expect(of('renew')[0]?.begun).toEqual({ processId, duration: expect.any(Number) }))
  await eventually(() =>
    expect(of('maintain')).toContainEqual({
      kind: 'maintain',
      begun: { name: 'sweeping' },
      end: { done: { processIds: [expect.any(Number)] }, duration: expect.any(Number) },
    }),
  )
})

test('what an instrument throws, now or later, is logged once and changes nothing', async () => {
  const failing: Instrumentation = {
    enqueue() {
      throw new Error('enqueue')
    },
    perform: () => () => {
      throw new Error('perform')
    },
    // A function without a type may be async.
    complete: (async () => {
      throw new Error('complete')
    }) as unknown as () => void,
  }
  const { instrument, of } = recorder()
  const lockstep = lockstepWith(failing, instrument)
  const queue = env.queue({ perform() {} })
  await env.create({ queues: [queue] }, lockstep).start()
  for (const id of ['a', 'b', 'c']) await lockstep.enqueue(queue, { id })
  await eventually(() => expect(of('complete').length).toBeGreaterThan(0))
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  const told = env.warnings.filter(({ message }) => message === 'instrumentation failed')
  expect(told.map(({ fields }) => fields)).toMatchObject([
    { instrumentation: 'enqueue', error: expect.stringContaining('enqueue') },
    { instrumentation: 'perform', error: expect.stringContaining('perform') },
    { instrumentation: 'complete', error: expect.stringContaining('complete') },
  ])
})

test('an instrument whose functions can’t be read, or whose headers come later, changes nothing', async () => {
  const unreadable = () => ({
    get within(): never {
      throw new Error('unreadable')
    },
  })
  const failing: Instrumentation = {
    // Functions without a type may be async.
    headers: (async () => {
      throw new Error('late')
    }) as unknown as () => undefined,
    enqueue: unreadable,
    claim: unreadable,
    perform: unreadable,
    rebalance: unreadable,
  }
  const lockstep = lockstepWith(failing)
  const queue = env.queue({ perform() {} })
  await env.create({ queues: [queue] }, lockstep).start()
  await lockstep.enqueue(queue, [{ id: 'a' }, { id: 'b' }])
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  const told = env.warnings.filter(({ message }) => message === 'instrumentation failed')
  expect(new Set(told.map(({ fields }) => (fields as { instrumentation: string }).instrumentation))).toEqual(
    new Set(['rebalance', 'enqueue', 'headers', 'claim', 'perform']),
  )
})

test.each([
  [[{ performed() {} }], /unknown option `performed`, did you mean `perform`/],
  [[{ claim: true }], /instrumentation\[0\].claim must be a function, not true/],
  [[undefined], /instrumentation\[0\] must be an object of functions, not undefined/],
  [{ claim() {} }, /instrumentation must be a list/],
])('instruments that would hear of nothing are refused: %o', (instrumentation, message) => {
  const { connectionString } = env
  const create = () => new Lockstep({ connectionString, instrumentation: instrumentation as never })
  expect(create).toThrow(OptionError)
  expect(create).toThrow(message)
})

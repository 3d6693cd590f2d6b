import { type } from 'arktype'
import * as v from 'valibot'
import { describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { type Death, defineQueue, JobError, PayloadError, type StandardSchema } from '../../src/index.ts'
import { Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

const LIBRARIES: [string, StandardSchema][] = [
  ['zod', z.object({ status: z.enum(['new', 'paid']), count: z.number().default(1) })],
  ['valibot', v.object({ status: v.picklist(['new', 'paid']), count: v.optional(v.number(), 1) })],
  ['arktype', type({ status: "'new' | 'paid'", count: 'number = 1' })],
]
const Even = z.number().refine((number) => number % 2 === 0, 'must be even')
const PATIENT = { refine: async (number: number) => number % 2 === 0 }

let names = 0
function nameOf(what: string): string {
  names += 1
  return `${what} ${names}`
}

/** Pushes as another language would: past the definition. */
async function pushBySql(
  queue: { readonly name: string },
  id: string,
  ...payloads: unknown[]
): Promise<void> {
  await env.sql(`SELECT lockstep.create_queue($1, 1)`, [queue.name])
  for (const [score, payload] of payloads.entries())
    await env.sql(`SELECT lockstep.enqueue($1, $2, $3, $4)`, [queue.name, id, JSON.stringify(payload), score])
}

async function dead(queue: { readonly name: string }): Promise<unknown[]> {
  const { items } = await env.lockstep.findDead(queue.name)
  return items.map(({ id, payload, error }) => [id, payload, error])
}

describe.each(LIBRARIES)('a schema of %s', (_, schema) => {
  test('checks what is enqueued: the error names job, field and reason, and nothing of the call is stored', async () => {
    const queue = defineQueue(nameOf('checked'), { schema })
    const jobs = [{ status: 'new' }, { status: 'lost' }].map((payload, id) => ({ id: `${id}`, payload }))
    const error = await env.lockstep.enqueue(queue, jobs).catch((thrown) => thrown)
    expect(error).toBeInstanceOf(JobError)
    expect(error).toMatchObject({ code: 'LOCKSTEP_BAD_JOB', index: 1, field: 'payload' })
    expect(error.message).toContain(`jobs[1].payload does not match the schema of queue "${queue.name}": `)
    expect(error.message).toContain('status')
    expect(await env.jobs(queue)).toBe(0)
  })

  test('a payload is stored as it was pushed, and the handler gets what the schema makes of it', async () => {
    const perform = vi.fn()
    const queue = defineQueue(nameOf('made'), { schema, perform: (batch) => perform([...batch]) })
    await env.lockstep.enqueue(queue, { id: 'a', payload: { status: 'paid' } })
    expect((await env.lockstep.find(queue)).items[0]!.payloads[0]!.payload).toEqual({ status: 'paid' })
    const worker = env.create({ queues: [queue] })
    const completed = next(worker, 'completed')
    await worker.start()
    await completed
    expect(perform).toHaveBeenCalledExactlyOnceWith([['a', [{ status: 'paid', count: 1 }]]])
  })

  test('what came by SQL and does not match goes to the morgue at once, with the reason', async () => {
    const queue = defineQueue(nameOf('by SQL'), { schema, perform: expect.fail })
    await pushBySql(queue, 'a', { status: 'lost' })
    const worker = env.create({ queues: [queue] })
    const failed = next(worker, 'failed')
    const died = next(worker, 'died')
    await worker.start()
    expect(await failed).toMatchObject({ id: 'a', error: expect.any(PayloadError), retryIn: null })
    expect(await died).toMatchObject({ id: 'a', payload: { status: 'lost' } })
    expect(await dead(queue)).toEqual([
      [
        'a',
        { status: 'lost' },
        expect.stringContaining(
          `PayloadError: the payload does not match the schema of queue "${queue.name}": status: `,
        ),
      ],
    ])
    expect(await env.jobs(queue)).toBe(0)
  })
})

describe.each(['plain', 'transactional'])('in a %s queue', (kind) => {
  const options = kind === 'plain' ? {} : ({ transactional: true } as object)

  test('P2 a refused payload ends the round before it, dies alone, and the rest follows in order', async () => {
    const rounds: unknown[] = []
    const deaths: Death[] = []
    const queue = defineQueue(nameOf('mixed'), {
      schema: Even,
      perform: (batch, { jobs }) =>
        void rounds.push(...[...batch].map(([id, numbers]) => [id, numbers, jobs.get(id)!.scores])),
      onDeath: (death) => void deaths.push(death),
      ...options,
    })
    await pushBySql(queue, 'a', 2, 4, 5, 'six', 8)
    const worker = env.create({ queues: [queue] })
    await worker.start()
    await vi.waitFor(async () => expect(await env.jobs(queue)).toBe(0), 10_000)
    await worker.stop()
    expect(rounds).toEqual([
      ['a', [2, 4], [0, 1]],
      ['a', [8], [4]],
    ])
    expect(deaths.map(({ payload, score }) => [payload, score])).toEqual([
      [5, 2],
      ['six', 3],
    ])
    expect(await dead(queue)).toEqual([
      ['a', 5, expect.stringMatching(/: must be even$/)],
      ['a', 'six', expect.stringMatching(/expected number/)],
    ])
  })

  test('of a batch, the other ids are performed', async () => {
    const performed: string[] = []
    const queue = defineQueue(nameOf('batch'), {
      schema: Even,
      shards: 1,
      batchSize: 3,
      perform: (batch) => void performed.push(...batch.keys()),
      ...options,
    })
    await pushBySql(queue, 'a', 2)
    await pushBySql(queue, 'b', 3)
    await pushBySql(queue, 'c', 4)
    const worker = env.create({ queues: [queue], slots: 1 })
    await worker.start()
    await vi.waitFor(async () => expect(await env.jobs(queue)).toBe(0), 10_000)
    expect(performed).toEqual(['a', 'c'])
    expect(await dead(queue)).toEqual([['b', 3, expect.any(String)]])
  })

  test('a schema that throws fails the round, which is tried again', async () => {
    const perform = vi.fn()
    let broken = true
    const schema = z.number().refine(() => {
      if (broken) throw new Error('no dictionary')
      return true
    })
    const queue = defineQueue(nameOf('broken'), { schema, perform, retryIn: () => 0.02, ...options })
    await expect(env.lockstep.enqueue(queue, { id: 'a', payload: 1 })).rejects.toThrow('no dictionary')
    await pushBySql(queue, 'a', 1)
    const worker = env.create({ queues: [queue] })
    const failed = next(worker, 'failed')
    await worker.start()
    expect(await failed).toMatchObject({ error: { message: 'no dictionary' }, retryCount: 0, retryIn: 0.02 })
    const completed = next(worker, 'completed')
    broken = false
    await completed
    expect(perform).toHaveBeenCalledOnce()
  })
})

test('maxPayloads counts what is accepted before a refused payload, and the rest follows', async () => {
  const rounds: unknown[] = []
  const queue = defineQueue(nameOf('portions'), {
    schema: Even,
    maxPayloads: 2,
    perform: (batch) => void rounds.push([...batch.values()].flat()),
  })
  await pushBySql(queue, 'a', 2, 4, 6, 7, 8, 10)
  await env.work({ queues: [queue] })
  await vi.waitFor(async () => expect(await env.jobs(queue)).toBe(0), 10_000)
  expect(rounds).toEqual([[2, 4], [6], [8, 10]])
  expect(await dead(queue)).toEqual([['a', 7, expect.any(String)]])
})

test('P5 an equal payload that was pushed meanwhile is not buried with a refused one', async () => {
  const [begun, pushed] = [new Gate(), new Gate()]
  const verdicts = [false, true]
  const validate = async (value: unknown) => {
    begun.open()
    await pushed.opened
    return verdicts.shift() ? { value } : { issues: [{ message: 'not yet' }] }
  }
  const schema: StandardSchema = { '~standard': { version: 1, vendor: 'test', validate } }
  const perform = vi.fn()
  const queue = defineQueue(nameOf('again'), { schema, perform })
  await pushBySql(queue, 'a', 1)
  const worker = env.create({ queues: [queue] })
  const completed = next(worker, 'completed')
  await worker.start()
  await begun.opened
  await pushBySql(queue, 'a', 1)
  pushed.open()
  await completed
  expect(perform).toHaveBeenCalledOnce()
  expect(await dead(queue)).toEqual([['a', 1, expect.any(String)]])
})

describe('a schema that takes its time', () => {
  const Patient = z.number().refine(PATIENT.refine, 'must be even')

  test('checks what is enqueued', async () => {
    const queue = defineQueue(nameOf('patient'), { schema: Patient })
    const jobs = [2, 3, 4].map((payload) => ({ id: `${payload}`, payload }))
    await expect(env.lockstep.enqueue(queue, jobs)).rejects.toMatchObject({ index: 1, field: 'payload' })
    expect(await env.lockstep.enqueue(queue, { id: 'a', payload: 2 })).toBe(1)
  })

  test('P4 its push is a part of the transaction that the call began in, or of none', async () => {
    const validating = new Gate()
    const schema = z.number().refine(() => validating.opened.then(() => true))
    const queue = defineQueue(nameOf('late'), { schema })
    await env.sql('SELECT lockstep.create_queue($1, 1)', [queue.name])
    const client = await env.pool.connect()
    await client.query('BEGIN')
    const call = env.lockstep.enqueue(queue, { id: 'a', payload: 2 }, { tx: client })
    await client.query('ROLLBACK')
    await client.query('BEGIN')
    validating.open()
    await expect(call).rejects.toMatchObject({ code: 'LOCKSTEP_BAD_TRANSACTION' })
    await client.query('COMMIT')
    client.release()
    expect(await env.jobs(queue)).toBe(0)
  })
})

test.each([undefined, {}])(
  'P3: a schema that returns %s fails, and no payload counts as done',
  async (returned) => {
    const schema = { '~standard': { version: 1, vendor: 'test', validate: () => returned } } as never
    const queue = defineQueue(nameOf('careless'), { schema, maxRetryCount: 0, perform: expect.fail })
    await expect(env.lockstep.enqueue(queue, { id: 'a', payload: 1 })).rejects.toThrow(
      /neither a `value` nor/,
    )
    await pushBySql(queue, 'a', 1)
    const worker = env.create({ queues: [queue] })
    const died = next(worker, 'died')
    await worker.start()
    expect(await died).toMatchObject({ id: 'a', payload: 1 })
  },
)

test.each([
  [
    'throws',
    () => {
      throw unreadable()
    },
  ],
  ['rejects with', () => Promise.reject(unreadable())],
])(
  'P3: a schema that %s what can’t even be looked at fails its round, and the worker goes on',
  async (_, validate) => {
    const schema = { '~standard': { version: 1, vendor: 'test', validate } } as never
    const queue = defineQueue(nameOf('unreadable'), { schema, maxRetryCount: 0, perform: expect.fail })
    await pushBySql(queue, 'a', 1)
    const worker = env.create({ queues: [queue] })
    const died = next(worker, 'died')
    await worker.start()
    expect(await died).toMatchObject({ id: 'a', payload: 1 })
  },
)

function unreadable(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

test('R15: a worker that stops while a schema takes its time begins no handler, and releases the round unchanged', async () => {
  const [begun, stopped] = [new Gate(), new Gate()]
  const validate = async (value: unknown) => {
    begun.open()
    await stopped.opened
    return { value }
  }
  const perform = vi.fn()
  const schema: StandardSchema = { '~standard': { version: 1, vendor: 'test', validate } }
  const queue = defineQueue(nameOf('stopping'), { schema, perform })
  await pushBySql(queue, 'a', 1, 2)
  const worker = await env.work({ queues: [queue], shutdownTimeout: 1 })
  await begun.opened
  expect(await worker.stop()).toBe(false)
  stopped.open()
  await vi.waitFor(
    async () =>
      expect(await env.job(queue, 'a')).toMatchObject({ claimed_by: null, retry_count: -1, crashes: 0 }),
    10_000,
  )
  expect(perform).not.toHaveBeenCalled()
})

test('the schema sees a payload as JSON has it, so what is accepted once is accepted again', async () => {
  const queue = defineQueue(nameOf('dates'), { schema: z.object({ at: z.date() }) })
  await expect(env.lockstep.enqueue(queue, { id: 'a', payload: { at: new Date() } })).rejects.toThrow(
    /at: Invalid input: expected date, received string/,
  )
})

test('a payload that a middleware has changed is checked as it is stored', async () => {
  const { Lockstep } = await import('../../src/index.ts')
  const lockstep = new Lockstep({
    pool: env.pool,
    middleware: [({ jobs }, next) => next(jobs.map((job) => ({ ...job, payload: 3 })))],
  })
  const queue = defineQueue(nameOf('changed'), { schema: Even })
  await expect(lockstep.enqueue(queue, { id: 'a', payload: 2 })).rejects.toThrow(/must be even/)
})

test.each([
  ['an empty object', {}],
  ['a text', 'schema'],
  ['a schema that validates nothing', { '~standard': { version: 1 } }],
])('%s is no schema', (_, schema) => {
  expect(() => defineQueue('orders', { schema: schema as never })).toThrow(
    /^queue "orders": schema must be a schema of zod, valibot, arktype/,
  )
})

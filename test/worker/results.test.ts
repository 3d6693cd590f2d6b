import pg from 'pg'
import { expect, test } from 'vitest'
import { clientMiddlewareFor, Discard, Lockstep, type NewJob, type Queue } from '../../src/index.ts'
import { eventually, Gate, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const A_MINUTE = 60

/** Pushes a job, and waits for what becomes of it. */
async function ask(queue: Queue, job: NewJob, wait = 10_000) {
  const { id, round } = await env.lockstep.enqueueForResult(queue, job)
  return env.lockstep.result(queue, id, round, { wait })
}

/** The results that are kept, in the order of their rounds. */
async function keptOf({ name }: Queue): Promise<unknown[]> {
  const rows = await env.sql<{ result: unknown }>(
    `SELECT r.result FROM lockstep.results r JOIN lockstep.queues q USING (queue_id) WHERE q.name = $1 ORDER BY r.fence`,
    [name],
  )
  return rows.map(({ result }) => result)
}

test.each(['plain', 'transactional'])('a %s queue keeps what its handler returns', async (kind) => {
  const options = {
    keepResult: A_MINUTE,
    perform: (batch: ReadonlyMap<string, readonly unknown[]>) => ({ sum: [...batch.values()].flat() }),
  }
  const queue = kind === 'plain' ? env.queue(options) : env.transactional(options)
  await env.work({ queues: [queue] })
  const answer = await ask(queue, { id: 'a', payload: 1 })
  expect(answer).toEqual({ state: 'completed', result: { sum: [1] }, endedAt: expect.any(Date) })
  expect(await ask(queue, { id: 'a', payload: 2 })).toMatchObject({ result: { sum: [2] } })
})

test('of a batch, each id gets its own from the Map that the handler returns; a missing one is null', async () => {
  const queue = env.queue({
    shards: 1,
    batchSize: 10,
    keepResult: A_MINUTE,
    perform: (batch) => new Map([...batch].filter(([id]) => id !== 'c').map(([id, all]) => [id, all[0]])),
  })
  const rounds = await Promise.all(
    ['a', 'b', 'c'].map((id) => env.lockstep.enqueueForResult(queue, { id, payload: `of ${id}` })),
  )
  await env.work({ queues: [queue] })
  const results = rounds.map(({ id, round }) => env.lockstep.result(queue, id, round, { wait: 10_000 }))
  expect((await Promise.all(results)).map((one) => 'result' in one && one.result)).toEqual([
    'of a',
    'of b',
    null,
  ])
})

test.each([
  ['a result that JSON has no text for', { perform: () => 1n }, /BigInt/],
  ['one that jsonb can’t hold', { perform: () => 'a\u0000b' }, /\\u0000/],
  ['one of more than 1 MiB', { perform: () => 'x'.repeat(1_048_575) }, /at most 1 MiB/],
  [
    'one whose numbers have too many digits',
    { perform: () => Array(8_000).fill(1e300) },
    /at most 2 MiB with/,
  ],
  ['a Map, of one job', { perform: () => new Map([['a', 1]]) }, /is a Map/],
  [
    'a promise in the Map of a batch',
    { batchSize: 2, perform: () => new Map([['a', Promise.resolve(1)]]) },
    /await it/,
  ],
  ['something else than a Map, of a batch', { batchSize: 2, perform: () => ({ a: 1 }) }, /Map from ids/],
])('%s is a failure that says so', async (_, options, message) => {
  const queue = env.queue({ keepResult: A_MINUTE, maxRetryCount: 0, ...options })
  await env.work({ queues: [queue] })
  const answer = await ask(queue, { id: 'a' })
  expect(answer).toEqual({
    state: 'dead',
    error: expect.stringMatching(message),
    endedAt: expect.any(Date),
  })
})

test('a failure that is tried again is no end; the state tells its error', async () => {
  const gate = new Gate()
  let runs = 0
  const queue = env.queue({
    keepResult: A_MINUTE,
    perform: async () => {
      runs += 1
      if (runs === 1) throw new Error('not yet')
      await gate.opened
      return 'done'
    },
  })
  await env.work({ queues: [queue] })
  const { id, round } = await env.lockstep.enqueueForResult(queue, { id: 'a' })
  await eventually(async () =>
    expect(await env.lockstep.result(queue, id, round)).toEqual({
      state: 'working',
      error: expect.stringContaining('not yet'),
      retryCount: 0,
    }),
  )
  gate.open()
  expect(await env.lockstep.result(queue, id, round, { wait: 10_000 })).toMatchObject({ result: 'done' })
})

test('P5 a push while its id is in work gets the result of the next round', async () => {
  const gate = new Gate()
  const queue = env.queue({
    keepResult: A_MINUTE,
    perform: async (batch) => {
      const payloads = batch.get('a')!
      if (payloads.includes(1)) await gate.opened
      return payloads
    },
  })
  await env.work({ queues: [queue] })
  const first = await env.lockstep.enqueueForResult(queue, { id: 'a', payload: 1 })
  await eventually(async () => expect((await env.job(queue, 'a'))?.claimed_by).not.toBeNull())
  const second = await env.lockstep.enqueueForResult(queue, { id: 'a', payload: 2 })
  gate.open()
  const results = [first, second].map(({ id, round }) =>
    env.lockstep.result(queue, id, round, { wait: 10_000 }),
  )
  expect(await Promise.all(results)).toMatchObject([{ result: [1] }, { result: [2] }])
})

test('who merged into a waiting job gets the result of the round that took both', async () => {
  const queue = env.queue({ keepResult: A_MINUTE, perform: (batch) => batch.get('a') })
  const pushed = await Promise.all(
    [2, 1].map((score) => env.lockstep.enqueueForResult(queue, { id: 'a', payload: score, score })),
  )
  await env.work({ queues: [queue] })
  for (const { id, round } of pushed)
    expect(await env.lockstep.result(queue, id, round, { wait: 10_000 })).toMatchObject({ result: [1, 2] })
})

test('a round that left payloads behind has no result: the one that takes the last has it', async () => {
  const queue = env.queue({ keepResult: A_MINUTE, maxPayloads: 2, perform: (batch) => batch.get('a') })
  const last = [3, 1, 2].map((score) =>
    env.lockstep.enqueueForResult(queue, { id: 'a', payload: score, score }),
  )
  const pushed = await Promise.all(last)
  await env.work({ queues: [queue] })
  for (const { id, round } of pushed)
    expect(await env.lockstep.result(queue, id, round, { wait: 10_000 })).toMatchObject({ result: [3] })
  expect(await keptOf(queue)).toEqual([[3]])
})

test('R7 a death is told to those whose payload died, not to others of the id', async () => {
  const queue = env.queue({
    keepResult: A_MINUTE,
    maxRetryCount: 0,
    perform: (batch) => {
      if (batch.get('a')!.includes('bad')) throw new Error('no good')
      return 'fine'
    },
  })
  const [bad, good] = await Promise.all(
    ['bad', 'good'].map((payload, score) =>
      env.lockstep.enqueueForResult(queue, { id: 'a', payload, score }),
    ),
  )
  await env.work({ queues: [queue] })
  expect(await env.lockstep.result(queue, 'a', good!.round, { wait: 10_000 })).toMatchObject({
    result: 'fine',
  })
  expect(await env.lockstep.result(queue, 'a', bad!.round)).toMatchObject({
    state: 'dead',
    error: expect.stringContaining('no good'),
  })
})

test('a discarded, a killed and a deleted job have ended', async () => {
  const queue = env.queue({
    keepResult: A_MINUTE,
    perform: () => {
      throw new Discard('not for us')
    },
  })
  const far = Date.now() + 3_600_000
  const killed = await env.lockstep.enqueueForResult(queue, { id: 'killed', performIn: far })
  const deleted = await env.lockstep.enqueueForResult(queue, { id: 'deleted', performIn: far })
  expect(await env.lockstep.result(queue, 'killed', killed.round)).toMatchObject({ state: 'waiting' })
  await env.lockstep.kill(queue, { ids: ['killed'] })
  await env.lockstep.delete(queue, { ids: ['deleted'] })
  expect(await env.lockstep.result(queue, 'killed', killed.round)).toMatchObject({ state: 'dead' })
  expect(await env.lockstep.result(queue, 'deleted', deleted.round)).toEqual({ state: 'gone' })
  await env.work({ queues: [queue] })
  expect(await ask(queue, { id: 'discarded' })).toMatchObject({
    state: 'dead',
    error: expect.stringContaining('not for us'),
  })
})

test('an older death of an equal payload is not told to who pushes it again', async () => {
  const gate = new Gate()
  let runs = 0
  const queue = env.queue({
    keepResult: A_MINUTE,
    maxRetryCount: 0,
    perform: async () => {
      runs += 1
      if (runs === 1) throw new Error('the first one')
      await gate.opened
      return runs
    },
  })
  await env.work({ queues: [queue] })
  expect(await ask(queue, { id: 'a', payload: 'same' })).toMatchObject({ state: 'dead' })
  const { id, round } = await env.lockstep.enqueueForResult(queue, { id: 'a', payload: 'same' })
  await eventually(async () =>
    expect(await env.lockstep.result(queue, id, round)).toMatchObject({ state: 'working' }),
  )
  gate.open()
  expect(await env.lockstep.result(queue, id, round, { wait: 10_000 })).toMatchObject({ result: 2 })
})

test('P4 with `tx`, it is a part of the transaction; before the commit nobody else sees it', async () => {
  const queue = env.queue({ keepResult: A_MINUTE, perform: () => 'done' })
  await env.work({ queues: [queue] })
  const session = await env.session()
  await session.query('BEGIN')
  const { id, round } = await env.lockstep.enqueueForResult(queue, { id: 'a' }, { tx: session })
  expect(await env.lockstep.result(queue, id, round)).toEqual({ state: 'gone' })
  await session.query('COMMIT')
  expect(await env.lockstep.result(queue, id, round, { wait: 10_000 })).toMatchObject({ result: 'done' })
  await session.query('BEGIN')
  const other = await env.lockstep.enqueueForResult(queue, { id: 'b' }, { tx: session })
  await session.query('ROLLBACK')
  expect(await env.lockstep.result(queue, 'b', other.round, { wait: 200 })).toEqual({ state: 'gone' })
  await expect(env.lockstep.enqueueForResult(queue, { id: 'c' }, { tx: session })).rejects.toMatchObject({
    code: 'LOCKSTEP_BAD_TRANSACTION',
  })
})

test('P6 a worker that lost its claim leaves no result', async () => {
  const gate = new Gate()
  const queue = env.queue({
    keepResult: A_MINUTE,
    perform: async () => {
      await gate.opened
      return 'late'
    },
  })
  const worker = await env.work({ queues: [queue] })
  const refused: string[] = []
  worker.on('refused', ({ id }) => refused.push(id))
  const { round } = await env.lockstep.enqueueForResult(queue, { id: 'a' })
  await eventually(async () => expect((await env.job(queue, 'a'))?.claimed_by).not.toBeNull())
  const [of] = await env.sql<{ queue_id: number }>('SELECT queue_id FROM lockstep.queues WHERE name = $1', [
    queue.name,
  ])
  const mine = 'queue_id = $1 AND id = $2'
  await env.sql(`UPDATE lockstep.jobs SET fence = nextval('lockstep.fences') WHERE ${mine}`, [
    of!.queue_id,
    'a',
  ])
  gate.open()
  await eventually(() => expect(refused).toEqual(['a']))
  expect(await env.lockstep.result(queue, 'a', round)).toMatchObject({ state: 'working' })
  await env.sql(`DELETE FROM lockstep.jobs WHERE ${mine}`, [of!.queue_id, 'a'])
})

test('a completion that waits for a producer’s transaction has its result when it is stored, not before', async () => {
  const gate = new Gate()
  const queue = env.queue({
    keepResult: A_MINUTE,
    perform: async (batch) => {
      await gate.opened
      return batch.get('a')
    },
  })
  await env.work({ queues: [queue] })
  const { round } = await env.lockstep.enqueueForResult(queue, { id: 'a', payload: 1 })
  await eventually(async () => expect((await env.job(queue, 'a'))?.claimed_by).not.toBeNull())
  const session = await env.session()
  await session.query('BEGIN')
  await env.lockstep.enqueue(queue, { id: 'a', payload: 2 }, { tx: session })
  gate.open()
  expect(await env.lockstep.result(queue, 'a', round, { wait: 300 })).toMatchObject({ state: 'working' })
  await session.query('COMMIT')
  expect(await env.lockstep.result(queue, 'a', round, { wait: 10_000 })).toMatchObject({ result: [1] })
})

test('results are trimmed when their time is over, and gone right then', async () => {
  const queue = env.queue({ keepResult: A_MINUTE, perform: () => 'done' })
  await env.work({ queues: [queue] })
  const { round } = await env.lockstep.enqueueForResult(queue, { id: 'a' })
  const old = await env.lockstep.enqueueForResult(queue, { id: 'b' })
  for (const [id, of] of [
    ['a', round],
    ['b', old.round],
  ] as const)
    expect(await env.lockstep.result(queue, id, of, { wait: 10_000 })).toMatchObject({ result: 'done' })
  await env.sql(
    `UPDATE lockstep.results r SET keep_until = clock_timestamp() FROM lockstep.queues q
     WHERE r.queue_id = q.queue_id AND q.name = $1 AND r.job_id = 'b'`,
    [queue.name],
  )
  expect(await env.lockstep.result(queue, 'b', old.round)).toEqual({ state: 'gone' })
  expect(await env.sql('SELECT lockstep.trim_results() AS trimmed')).toEqual([{ trimmed: 1 }])
  expect(await env.lockstep.result(queue, 'a', round)).toMatchObject({ result: 'done' })
})

test('a queue that keeps none says so at once: the job has ended, and is gone', async () => {
  const queue = env.queue({ perform: () => 'done' })
  await env.work({ queues: [queue] })
  expect(await ask(queue, { id: 'a' })).toEqual({ state: 'gone' })
  expect(await keptOf(queue)).toEqual([])
})

test('from SQL', async () => {
  const queue = env.queue({ keepResult: A_MINUTE, perform: (batch) => batch.get('a') })
  await env.work({ queues: [queue] })
  const [pushed] = await env.sql<{ round: string }>(
    `SELECT lockstep.enqueue_for_result($1, 'a', '{"n": 12345678901234567890}') AS round`,
    [queue.name],
  )
  await env.lockstep.result(queue, 'a', pushed!.round, { wait: 10_000 })
  const [row] = await env.sql('SELECT * FROM lockstep.result($1, $2, $3)', [queue.name, 'a', pushed!.round])
  expect(row).toMatchObject({ state: 'completed', error: null, retry_count: null })
  await expect(env.sql(`SELECT * FROM lockstep.result($1, 'a', 'x')`, [queue.name])).rejects.toThrow(
    /not a round/,
  )
  await expect(
    env.sql(`SELECT * FROM lockstep.result('none', 'a', '1.1.0a1b2c3d4e5f6071')`),
  ).rejects.toMatchObject({
    code: 'LK001',
  })
})

test('a middleware may give the job its id, and may drop it', async () => {
  const queue = env.queue({ keepResult: A_MINUTE, perform: () => 'done' })
  const lockstep = new Lockstep({
    connectionString: env.connectionString,
    middleware: [
      clientMiddlewareFor(queue, async ({ jobs }, next) => {
        await next(jobs.filter(({ id }) => id !== 'dropped').map((job) => ({ ...job, id: `mine ${job.id}` })))
      }),
    ],
  })
  env.later(() => lockstep.close())
  expect(await lockstep.enqueueForResult(queue, { id: 'a' })).toMatchObject({ id: 'mine a' })
  await expect(lockstep.enqueueForResult(queue, { id: 'dropped' })).rejects.toMatchObject({
    code: 'LOCKSTEP_DROPPED',
  })
})

test('a wait ends with its signal, and with close()', async () => {
  const lockstep = new Lockstep({ connectionString: env.connectionString })
  env.later(() => lockstep.close())
  const queue = env.queue({ keepResult: A_MINUTE })
  const { id, round } = await lockstep.enqueueForResult(queue, { id: 'a' })
  const controller = new AbortController()
  const waiting = lockstep.result(queue, id, round, { wait: 60_000, signal: controller.signal })
  controller.abort(new Error('enough'))
  await expect(waiting).rejects.toThrow('enough')
  const other = lockstep.result(queue, id, round, { wait: 60_000 })
  await lockstep.close()
  expect(await other).toEqual({ state: 'waiting', error: null, retryCount: -1 })
})

test('bad input is refused', async () => {
  const queue = env.queue({ keepResult: A_MINUTE })
  for (const [call, code] of [
    [() => env.lockstep.result(queue, 'a', 'x'), 'LOCKSTEP_BAD_OPTION'],
    [() => env.lockstep.result(queue, 1 as never, '1.1.0a1b2c3d4e5f6071'), 'LOCKSTEP_BAD_OPTION'],
    [() => env.lockstep.result(queue, 'a', '1.1.0a1b2c3d4e5f6071', { wait: -1 }), 'LOCKSTEP_BAD_OPTION'],
    [() => env.lockstep.result(null as never, 'a', '1.1.0a1b2c3d4e5f6071'), 'LOCKSTEP_BAD_QUEUE'],
    [() => env.lockstep.result('no such queue', 'a', '1.1.0a1b2c3d4e5f6071'), 'LOCKSTEP_UNKNOWN_QUEUE'],
    [async () => env.queue({ keepResult: 0 }), 'LOCKSTEP_BAD_OPTION'],
  ] as const)
    await expect(call()).rejects.toMatchObject({ code })
  await expect(env.lockstep.enqueueForResult(queue, { id: '' })).rejects.toMatchObject({
    code: 'LOCKSTEP_BAD_JOB',
  })
})

test('a hundred waits go to the database together', async () => {
  const queue = env.queue({ keepResult: A_MINUTE })
  const pool = new pg.Pool({ connectionString: env.connectionString, max: 3 })
  env.later(() => pool.end())
  const lockstep = new Lockstep({ pool })
  const pushed = await Promise.all(
    Array.from({ length: 100 }, (_, n) => lockstep.enqueueForResult(queue, { id: `job ${n}` })),
  )
  let statements = 0
  pool.on('acquire', () => {
    statements += 1
  })
  await Promise.all(pushed.map(({ id, round }) => lockstep.result(queue, id, round, { wait: 500 })))
  expect(statements).toBeLessThan(100)
})

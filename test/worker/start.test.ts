import { describe, expect, test } from 'vitest'
import { defineQueue, Lockstep, type LockstepOptions, type WorkerOptions } from '../../src/index.ts'
import { inversions, lost, overlaps } from '../support/checker.ts'
import { createDatabase } from '../support/database.ts'
import { startPooler } from '../support/pooler.ts'
import { Producer } from '../support/producer.ts'
import { Recorder } from '../support/recorder.ts'
import { eventually, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

const queue = defineQueue('started', { perform() {} })

describe('a worker can’t be made', () => {
  const bad: [string, WorkerOptions, string, RegExp][] = [
    ['without queues', { queues: [] }, 'LOCKSTEP_BAD_QUEUE', /at least one queue/],
    [
      'where a definition comes twice',
      { queues: [queue, defineQueue('started', { perform() {} })] },
      'LOCKSTEP_BAD_QUEUE',
      /"started" is defined twice/,
    ],
    [
      'where a queue has no handler',
      { queues: [defineQueue('produced')] },
      'LOCKSTEP_BAD_QUEUE',
      /"produced" has no `perform`/,
    ],
    [
      'for what is no queue',
      { queues: [{ name: 'plain' } as never] },
      'LOCKSTEP_BAD_QUEUE',
      /what defineQueue\(\) returns/,
    ],
    [
      'with an unknown option',
      { queues: [queue], slot: 3 } as never,
      'LOCKSTEP_BAD_OPTION',
      /`slot`, did you mean `slots`\?/,
    ],
    ['with no slots', { queues: [queue], slots: 0 }, 'LOCKSTEP_BAD_OPTION', /slots must be a whole number/],
    ['with too short a lease', { queues: [queue], lease: 10 }, 'LOCKSTEP_BAD_OPTION', /lease must be/],
    [
      'with a word for true or false',
      { queues: [queue], killOnLeaseEnd: 'yes' as never },
      'LOCKSTEP_BAD_OPTION',
      /killOnLeaseEnd must be true or false/,
    ],
    [
      'with a scheduler that can’t pick',
      { queues: [queue], scheduler: {} as never },
      'LOCKSTEP_BAD_OPTION',
      /pick/,
    ],
    [
      'with a splitter that can’t share',
      { queues: [queue], splitter: {} as never },
      'LOCKSTEP_BAD_OPTION',
      /byNode/,
    ],
  ]

  test.each(bad)('%s', (_, options, code, message) => {
    const make = () => env.create(options)
    expect(make).toThrow(message)
    expect(make).toThrow(expect.objectContaining({ code }))
  })
})

describe('a worker does not start', () => {
  test('twice', async () => {
    const worker = await env.work({ queues: [queue] })
    await expect(worker.start()).rejects.toMatchObject({
      code: 'LOCKSTEP_CLOSED',
      message: expect.stringMatching('starts once'),
    })
    await worker.stop()
    await expect(worker.start()).rejects.toMatchObject({
      code: 'LOCKSTEP_CLOSED',
      message: expect.stringMatching('starts once'),
    })
  })

  test('without the schema', async () => {
    const worker = env.create({ queues: [queue] }, open({ schema: 'nowhere' }))
    await expect(worker.start()).rejects.toMatchObject({
      code: 'LOCKSTEP_SCHEMA_MISSING',
      message: expect.stringMatching(/"nowhere".*lockstep migrate/),
    })
    expect(await worker.stop()).toBe(true)
  })

  test('with an older schema, or a newer one', async () => {
    const lockstep = open({ schema: 'other' })
    await lockstep.migrate()
    await env.sql('ALTER FUNCTION other.create_queue RENAME TO create_queue_once')
    await expect(env.create({ queues: [queue] }, lockstep).start()).rejects.toMatchObject({
      code: 'LOCKSTEP_SCHEMA_OLD',
    })
    await env.sql("INSERT INTO other.migrations VALUES ('9999_future', 'now')")
    await expect(env.create({ queues: [queue] }, lockstep).start()).rejects.toMatchObject({
      code: 'LOCKSTEP_SCHEMA_NEW',
      message: expect.stringMatching('9999_future'),
    })
    expect(await env.sql('SELECT FROM other.processes')).toEqual([])
  })

  test('where no server answers', async () => {
    const worker = env.create(
      { queues: [queue] },
      open({ connectionString: 'postgresql://nobody@127.0.0.1:1/nowhere' }),
    )
    await expect(worker.start()).rejects.toMatchObject({ code: 'LOCKSTEP_CONNECTION' })
    expect(await worker.stop()).toBe(true)
    // None that broke: there was no connection yet.
    expect(env.warnings.map(({ message }) => message)).toEqual(['no wake-up connection: polling'])
  })

  test('through a pooler, unless a direct connection is named', async () => {
    const pooler = await startPooler(env.connectionString)
    env.later(() => pooler.close())
    const { connectionString } = pooler
    await expect(env.create({ queues: [queue] }, open({ connectionString })).start()).rejects.toMatchObject({
      code: 'LOCKSTEP_POOLED',
      message: expect.stringMatching('directUrl'),
    })
    expect(await env.sql('SELECT FROM lockstep.processes')).toEqual([])

    const lockstep = open({ connectionString, directUrl: env.connectionString })
    const worker = env.create({ queues: [queue] }, lockstep)
    await worker.start()
    const completed = next(worker, 'completed')
    await lockstep.enqueue(queue, { id: 'a' })
    await completed
    await worker.stop()
  })

  test('P1: with a `directUrl` to another database, where locks and lease would protect nothing', async () => {
    const other = await createDatabase()
    env.later(() => other.drop())
    const there = open({ connectionString: other.connectionString })
    await there.migrate()
    env.later(() => there.close())
    const lockstep = open({ directUrl: other.connectionString })
    await expect(env.create({ queues: [queue] }, lockstep).start()).rejects.toMatchObject({
      code: 'LOCKSTEP_OTHER_DATABASE',
      message: expect.stringMatching('directUrl'),
    })
    expect(await env.sql('SELECT FROM lockstep.processes')).toEqual([])
  })
})

test('a start that can’t tell the others goes on: handlers may run already', async () => {
  const { network, lockstep } = await env.distant()
  const works = env.queue({ perform() {} })
  const worker = env.create({ queues: [works] }, lockstep)
  const completed = next(worker, 'completed')
  network.cutAt(/rebalance\0/)
  await worker.start()
  network.restore()
  await env.lockstep.enqueue(works, { id: 'a' })
  await completed
})

test('P1 P2 P3: where the database’s default is REPEATABLE READ, everything works as ever', async () => {
  const [{ name }] = (await env.sql('SELECT current_database() AS name')) as [{ name: string }]
  await env.sql(`ALTER DATABASE ${name} SET default_transaction_isolation = 'repeatable read'`)
  env.later(() => env.sql(`ALTER DATABASE ${name} RESET default_transaction_isolation`))
  const lockstep = open({})
  const recorder = new Recorder()
  const written: string[] = []
  const plain = env.queue({
    shards: 2,
    batchSize: 3,
    perform: recorder.around((batch) => {
      if (Math.random() < 0.1) throw new Error([...batch.keys()].join())
    }),
  })
  const transactional = env.transactional({
    perform: async (batch, { tx }) => {
      const { rows } = await tx.query('SHOW transaction_isolation')
      written.push(...[...batch.keys()].map((id) => `${id} ${rows[0].transaction_isolation}`))
    },
  })
  const worker = env.create({ queues: [plain, transactional], slots: 3 }, lockstep)
  await worker.start()
  const producer = new Producer(env, plain, 15)
  await lockstep.enqueue(transactional, [{ id: 'a' }, { id: 'b' }])
  await eventually(() => expect(recorder.runs.length).toBeGreaterThan(150))
  await producer.end()
  await eventually(async () => expect(await env.jobs(plain)).toBe(0))
  await eventually(async () => expect(await env.jobs(transactional)).toBe(0))
  expect(written.sort()).toEqual(['a read committed', 'b read committed'])
  expect(lost(recorder.runs, producer.pushed)).toEqual([])
  expect(overlaps(recorder.runs)).toEqual([])
  expect(inversions(recorder.runs, (payload) => payload as number)).toEqual([])
})

/** A Lockstep of the test's own. */
function open(options: Partial<LockstepOptions>): Lockstep {
  const { connectionString, logger } = env
  const lockstep = new Lockstep({ connectionString, logger, ...options })
  env.later(() => lockstep.close())
  return lockstep
}

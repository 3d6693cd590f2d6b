import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { defineQueue, Lockstep, type Queue, weighted } from '../../src/index.ts'
import { DEFAULT_ROLES, rolesSql } from '../../src/postgres/roles.ts'
import { quoteIdentifier } from '../../src/postgres/schema-name.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { eventually, next, useWorkers } from '../support/worker-environment.ts'
import { HOSTILE } from './hostile.ts'

const env = useWorkers()

describe('a hostile name of a queue', () => {
  test('goes everywhere a name goes', async () => {
    const handed: string[] = []
    const queues = HOSTILE.map((name) =>
      defineQueue(name, { shards: 2, perform: (batch) => void handed.push(name, ...batch.keys()) }),
    )
    for (const queue of queues) {
      await env.lockstep.enqueue(queue, { id: 'a' })
      await env.sql(`SELECT lockstep.enqueue($1, 'a', '1')`, [queue.name])
      await env.lockstep.pause(queue.name)
      await env.lockstep.reshard(queue.name, 1)
    }
    const stats = await env.lockstep.stats()
    const paused = stats.queues.filter(({ queue }) => HOSTILE.includes(queue))
    expect(paused).toHaveLength(HOSTILE.length)
    for (const { pausedAt, shards } of paused) expect([pausedAt, shards]).toEqual([expect.any(Date), 1])
    const scheduler = weighted({ constructor: 1 } as never)
    await env.work({ queues, scheduler, slots: 4 })
    for (const { name } of queues) await env.lockstep.resume(name)
    await eventually(() =>
      expect(handed.toSorted()).toEqual([...HOSTILE, ...HOSTILE.map(() => 'a')].toSorted()),
    )
    expect(await env.lockstep.processes()).toMatchObject([{ queues: HOSTILE }])
  })

  test('that Postgres can’t hold is refused', () => {
    for (const name of ['', 'a\u0000', '\udfff', 'é'.repeat(256)])
      expect(() => defineQueue(name)).toThrow(expect.objectContaining({ code: 'LOCKSTEP_BAD_QUEUE' }))
  })

  test('weighs 1, like any that is not named', () => {
    const candidate = (queue: string) => ({ queue, shard: 0, lane: 0, lag: 1 })
    const scheduler = weighted({ other: 1 })
    const all = [candidate('constructor'), candidate('other')]
    const picked = Array.from({ length: 10 }, () => scheduler.pick(all)!.queue)
    expect(picked.filter((queue) => queue === 'constructor')).toHaveLength(5)
  })
})

describe('a hostile name of the schema', () => {
  const NAMES = [
    '@channel@ @schema@ @producer@',
    'a;--/* %s %I :x ?',
    '{a,b}[c](d).e ',
    '\u202eevil\u200b😀',
    '__proto__',
    'public',
  ]
  let database: TestDatabase
  const opened: Lockstep[] = []
  beforeAll(async () => {
    database = await createDatabase()
  })
  afterAll(async () => {
    await Promise.all(opened.map((library) => library.close()))
    await database.drop()
  })

  test.each(NAMES)('that is let pass works from migration to completion: %j', async (schema) => {
    const library = new Lockstep({ connectionString: database.connectionString, schema, logger: env.logger })
    opened.push(library)
    await library.migrate()
    const queue: Queue = defineQueue('orders', { perform() {} })
    const worker = env.create({ queues: [queue], poll: 60_000 }, library)
    await worker.start()
    const done = next(worker, 'completed')
    await library.enqueue(queue, { id: 'a' })
    await done
    expect((await library.stats()).total).toMatchObject({ waiting: 0, dead: 0 })
    expect(await library.processes()).toHaveLength(1)
    await worker.stop()
    const client = new pg.Client(database.connectionString)
    await client.connect()
    await client.query(`BEGIN; ${await rolesSql(schema, DEFAULT_ROLES)}; ROLLBACK`)
    const { rows } = await client.query(
      'SELECT nspname FROM pg_namespace WHERE nspname = $1 AND to_regclass($2) IS NOT NULL',
      [schema, `${quoteIdentifier(schema)}.jobs`],
    )
    await client.end()
    expect(rows).toEqual([{ nspname: schema }])
    expect(env.warnings).toEqual([])
  })
})

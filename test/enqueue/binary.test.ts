import pg from 'pg'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { drain } from '../../src/testing/index.ts'
import { openStore, type StoreEnvironment } from '../support/store-environment.ts'

let env: StoreEnvironment

beforeAll(async () => {
  env = await openStore()
})
afterAll(() => env?.close())
afterEach(() => {
  pg.defaults.binary = false
})

const refusal = (message: RegExp) =>
  expect.objectContaining({ code: 'LOCKSTEP_BAD_OPTION', message: expect.stringMatching(message) })

test('P4 a pool whose results come in binary is refused before anything is pushed', () => {
  const pool = new pg.Pool({ connectionString: env.connectionString, binary: true } as pg.PoolConfig)
  expect(() => new Lockstep({ pool })).toThrow(
    refusal(/^Lockstep: the pool has `binary: true`, but .* text: give it another pool, without `binary`$/),
  )
})

test('so is a process whose driver asks for binary results by default', () => {
  pg.defaults.binary = true
  const { connectionString } = env
  expect(() => new Lockstep({ connectionString })).toThrow(
    refusal(/^Lockstep: `pg.defaults.binary` is set, /),
  )
})

test('P4 a transaction whose results come in binary is pushed in, drained and looked at like any other', async () => {
  const queue = defineQueue('binary', { perform() {} })
  const tx = new pg.Client({ connectionString: env.connectionString, binary: true } as pg.ClientConfig)
  await tx.connect()
  try {
    await tx.query('BEGIN')
    expect(await env.lockstep.enqueue(queue, [{ id: 'a', score: 7 }, { id: 'b' }], { tx })).toBe(2)
    const found = await env.lockstep.find(queue, { ids: ['a'] }, { tx })
    expect(found.items).toMatchObject([
      { id: 'a', state: 'waiting', retryCount: -1, payloads: [{ score: 7 }] },
    ])
    const { queues } = await env.lockstep.stats({ tx })
    expect(queues.find((one) => one.queue === queue.name)).toMatchObject({ waiting: 2, shards: queue.shards })
    expect(await drain(env.lockstep, queue, { tx })).toMatchObject({ completed: 2 })
    await tx.query('ROLLBACK')
  } finally {
    await tx.end()
  }
  expect((await env.lockstep.stats()).total).toMatchObject({ waiting: 0, processed: 0 })
})

import pg from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import { type CreateClient, Lockstep } from '../../../src/index.ts'
import { hasPgBouncer, type PgBouncer, startPgBouncer } from '../../support/pgbouncer.ts'
import { next, useWorkers } from '../../support/worker-environment.ts'

const env = useWorkers()

describe.skipIf(!hasPgBouncer())('beside PgBouncer', () => {
  let bouncer: PgBouncer

  beforeAll(async () => {
    bouncer = await startPgBouncer(env.connectionString)
    return () => bouncer.stop()
  })

  function open(createClient: CreateClient): Lockstep {
    const lockstep = new Lockstep({
      connectionString: bouncer.connectionString,
      createClient,
      logger: env.logger,
    })
    env.later(() => lockstep.close())
    return lockstep
  }

  test('a worker whose function creates direct clients where they must be works', async () => {
    const lockstep = open((options, { direct }) => {
      const connectionString = direct ? env.connectionString : bouncer.connectionString
      return new pg.Client({ ...options, connectionString })
    })
    const queue = env.queue({ perform() {} })
    const worker = env.create({ queues: [queue] }, lockstep)
    await worker.start()
    const completed = next(worker, 'completed')
    await lockstep.enqueue(queue, { id: 'a' })
    await completed
    expect(env.warnings).toEqual([])
    expect(await worker.stop()).toBe(true)
  })

  test('one whose function creates none is refused, and told what to do', async () => {
    const lockstep = open(
      (options) => new pg.Client({ ...options, connectionString: bouncer.connectionString }),
    )
    const worker = env.create({ queues: [env.queue({ perform() {} })] }, lockstep)
    await expect(worker.start()).rejects.toMatchObject({
      code: 'LOCKSTEP_POOLED',
      message: expect.stringContaining('have `createClient` return a direct one'),
    })
  })
})

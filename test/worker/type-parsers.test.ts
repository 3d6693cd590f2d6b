import pg from 'pg'
import { afterAll, expect, test } from 'vitest'
import { next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

/** What applications set for the whole process, and more than that. */
const PARSERS = {
  BOOL: (text: string) => text,
  INT2: BigInt,
  INT4: BigInt,
  INT8: BigInt,
  FLOAT8: (text: string) => text,
  JSON: (text: string) => text,
  JSONB: (text: string) => text,
  TIMESTAMPTZ: (text: string) => text,
}
const usual = Object.keys(PARSERS).map((name) => {
  const oid = pg.types.builtins[name as keyof typeof PARSERS]
  return { oid, parser: pg.types.getTypeParser(oid, 'text') }
})
afterAll(() => {
  for (const { oid, parser } of usual) pg.types.setTypeParser(oid, parser)
})

test('everything works whatever parsers the application has set, and handlers have those', async () => {
  const seen: unknown[] = []
  const queue = env.transactional({
    async perform(batch, { tx }) {
      seen.push(...batch.values(), (await tx.query('SELECT 1::int8 AS n, true AS yes')).rows[0])
    },
  })
  for (const [name, parser] of Object.entries(PARSERS))
    pg.types.setTypeParser(pg.types.builtins[name as keyof typeof PARSERS], parser)
  expect(await env.lockstep.migrate()).toMatchObject({ defined: false })
  await env.lockstep.enqueue(queue, { id: 'a', payload: { n: 1 }, score: 2 })
  const found = await env.lockstep.find(queue)
  expect(found.items).toMatchObject([
    {
      id: 'a',
      retryCount: -1,
      performIn: expect.any(Date),
      payloads: [{ payload: { n: 1 }, score: 2 }],
    },
  ])
  const worker = env.create({ queues: [queue] })
  const completed = next(worker, 'completed')
  await worker.start()
  env.later(() => worker.stop())
  await completed
  expect(seen).toEqual([[{ n: 1 }], { n: 1n, yes: 't' }])
  expect((await env.lockstep.stats()).queues).toMatchObject([
    { queue: queue.name, waiting: 0, dead: 0, lag: 0 },
  ])
  expect(await env.lockstep.processes()).toMatchObject([
    { slots: expect.any(Number), startedAt: expect.any(Date) },
  ])
})

import { expect, test } from 'vitest'
import { defineQueue, Lockstep } from '../../src/index.ts'
import { eventually, next } from '../support/worker-environment.ts'
import { SCHEMA, useRoles } from './role-environment.ts'

const env = useRoles()
const JOBS = 300

test('a worker whose role may have no session more does with those it has, and handlers share one', async () => {
  const warnings: string[] = []
  const warn = (fields: object, message: string) => void warnings.push(`${message} ${JSON.stringify(fields)}`)
  const logger = { debug() {}, info() {}, warn, error: warn }
  const lockstep = new Lockstep({ connectionString: env.logins.url('worker'), schema: SCHEMA, logger })
  env.later(() => lockstep.close())
  const pids = new Set<number>()
  const queue = defineQueue<string>('crowded', {
    transactional: true,
    async perform(_, { tx }) {
      pids.add((await tx.query('SELECT pg_backend_pid() AS pid')).rows[0].pid)
    },
  })
  const worker = lockstep.createWorker({ queues: [queue], slots: 5 })
  await worker.start()
  env.later(() => worker.stop())
  const producer = env.lockstep('both')
  const first = next(worker, 'completed')
  await producer.enqueue(queue, { id: 'first' })
  await first

  const role = env.logins.role('worker')
  const [{ sessions }] = (await env.logins.asAdmin(
    'SELECT count(*)::int AS sessions FROM pg_stat_activity WHERE usename = $1',
    [role],
  )) as [{ sessions: number }]
  await env.logins.asAdmin(`ALTER ROLE "${role}" CONNECTION LIMIT ${sessions}`)
  env.later(() => env.logins.asAdmin(`ALTER ROLE "${role}" CONNECTION LIMIT -1`))
  let completed = 0
  worker.on('completed', ({ ids }) => {
    completed += ids.length
  })
  await producer.enqueue(
    queue,
    Array.from({ length: JOBS }, (_, index) => ({ id: `${index}` })),
  )
  await eventually(() => expect(completed).toBe(JOBS))
  expect(pids.size).toBe(1)
  expect(warnings).toEqual([])
})

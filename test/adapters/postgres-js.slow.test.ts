import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { eventually, useWorkers } from '../support/worker-environment.ts'
import type { Duty } from './postgres-js-worker.ts'

const env = useWorkers()
const SLOTS = 4
const IDS = Array.from({ length: 8 }, (_, index) => `order-${index}`)
const MAIN = new URL('./postgres-js-worker.ts', import.meta.url)

beforeAll(() => env.sql('CREATE TABLE written (id text)'))
beforeEach(() => env.sql('TRUNCATE written'))

/** A process that works; when postgres.js ends it, or as soon as its connections never answer again, another one follows. */
function start(duty: Duty): ChildProcess {
  const child = fork(MAIN, [], { execArgv: ['--import', 'tsx'], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  child.send(duty)
  return child
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.disconnect()
  await ended
}

const CASES: [string, Duty['library'], number, Duty['statement']][] = [
  ['postgres.js, one connection for four slots', 'postgres.js', 1, undefined],
  ['postgres.js, one for each slot', 'postgres.js', SLOTS, undefined],
  ['postgres.js, while a statement runs', 'postgres.js', 1, 'SELECT pg_sleep(600)'],
  ['Drizzle on postgres.js, one connection for four slots', 'Drizzle', 1, undefined],
  ['Drizzle on postgres.js, one for each slot', 'Drizzle', SLOTS, undefined],
  ['Drizzle on postgres.js, while a statement runs', 'Drizzle', 1, 'SELECT pg_sleep(600)'],
]

test.each(CASES)(
  'P3: %s: after a lost connection all is written exactly once, if the process has to be started again or not',
  async (_, library, max, statement) => {
    const queue = env.queue({})
    await env.lockstep.enqueue(
      queue,
      IDS.map((id) => ({ id })),
    )
    const duty = { connectionString: env.connectionString, queue: queue.name, library, max, statement }
    const first = start({ ...duty, isOver: false })
    await once(first, 'message')
    await env.sql(
      `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
       WHERE application_name = 'postgres.js' AND datname = current_database()`,
    )
    if (first.connected) first.send('over')
    const isDone = eventually(async () => expect(await env.jobs(queue)).toBe(0)).catch(() => {})
    await Promise.race([isDone, once(first, 'exit'), sleep(3_000)])
    // Between two statements, and with a connection that no other transaction has, not even that is needed.
    if (max === 1 && statement === undefined) {
      expect(first.exitCode).toBeNull()
      expect(await env.jobs(queue)).toBe(0)
    }
    await stop(first)
    const second = start({ ...duty, isOver: true })
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    await stop(second)
    // A handler writes twice.
    expect(await env.sql('SELECT id, count(*)::int AS count FROM written GROUP BY id ORDER BY id')).toEqual(
      IDS.map((id) => ({ id, count: 2 })),
    )
    expect((await env.lockstep.findDead(queue)).items).toEqual([])
  },
  60_000,
)

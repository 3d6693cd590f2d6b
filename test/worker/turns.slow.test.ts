import { describe, expect, test } from 'vitest'
import {
  Lockstep,
  type Queue,
  type QueueShards,
  type Share,
  type Worker,
  type WorkerOptions,
} from '../../src/index.ts'
import { shardsHeld } from '../support/shards.ts'
import { eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

/** Within a test, the worker's turn does not come, and no lease ends. */
const NEVER: Omit<WorkerOptions, 'queues'> = { rebalanceInterval: 60_000, lease: 600_000 }
const OFTEN: Omit<WorkerOptions, 'queues'> = { rebalanceInterval: 50, lease: 600_000 }

const held = async (queue: Queue, ...workers: readonly Worker[]) =>
  Promise.all(workers.map(async ({ processId }) => (await shardsHeld(env, processId, queue)).length))

/** What processes tell each other from now on. */
async function told(): Promise<string[]> {
  const session = await env.session()
  const messages: string[] = []
  session.on('notification', ({ payload }) => messages.push(payload!))
  await session.query('LISTEN lockstep')
  return messages
}

describe('P8: whoever sees a change tells those whose turn is far', () => {
  test('a queue that got other shards, since somebody wrote it into its row', async () => {
    const queue = env.queue({ shards: 2, perform() {} })
    const far = await env.work({ queues: [queue], ...NEVER })
    const near = await env.work({ queues: [queue], ...OFTEN })
    await eventually(async () => expect(await held(queue, far, near)).toEqual([1, 1]))
    await env.sql('UPDATE lockstep.queues SET shards = 6 WHERE name = $1', [queue.name])
    await eventually(async () => expect(await held(queue, far, near)).toEqual([3, 3]))
  })

  test('a process that is gone, whose jobs are free', async () => {
    const queue = env.queue({ shards: 1, perform() {} })
    const far = await env.work({ queues: [queue], ...NEVER, poll: 600_000 })
    const [dead] = await env.sql<{ id: number }>(
      `INSERT INTO lockstep.processes (host, pid, version, slots, queues, lease, expires_at)
       VALUES ('there', 1, '0', 1, '{}', 600000, clock_timestamp()) RETURNING process_id AS id`,
    )
    await env.lockstep.enqueue(queue, { id: 'left', performIn: Date.now() + 3_600_000 })
    await env.sql(
      `UPDATE lockstep.jobs SET claimed_by = $1, claimed_at = now(), fence = 1, perform_in = now() WHERE id = 'left'`,
      [dead!.id],
    )
    await env.work({ queues: [env.queue({ perform() {} })], ...OFTEN })
    await env.idle(queue)
    const rescued = next(far, 'rescued')
    await env.sql('DELETE FROM lockstep.processes WHERE process_id = $1', [dead!.id])
    expect(await rescued).toMatchObject({ id: 'left' })
  })

  test('a shard that its holder has let go of, while a batch of it is in work', async () => {
    const gate = new Gate()
    const queue = env.queue({ shards: 2, perform: () => gate.opened })
    const first = await env.work({ queues: [queue], ...NEVER })
    await env.lockstep.enqueue(
      queue,
      Array.from({ length: 20 }, (_, id) => ({ id })),
    )
    await eventually(() => expect(first.report()).toHaveLength(2))
    const second = await env.work({ queues: [queue], ...NEVER })
    await eventually(async () => expect(await held(queue, first, second)).toEqual([1, 1]))
    expect(first.report()).toHaveLength(2)
    gate.open()
  })

  test('a shard that its holder lets go of for no reason that others could see', async () => {
    const queue = env.queue({ shards: 2, perform() {} })
    let [comparisons, last, unchanged] = [0, 0, 0]
    const missing = {
      share({ shards }: QueueShards): Share {
        comparisons += 1
        return { quota: 2, wanted: shards, slotOf: () => undefined }
      },
    }
    // Releases a shard only once the other process has nothing more to compare. Otherwise that one might find the
    // change by itself, without being told.
    const leaving = {
      share({ shards }: QueueShards): Share {
        unchanged = comparisons > 0 && comparisons === last ? unchanged + 1 : 0
        last = comparisons
        return { quota: unchanged < 5 ? 2 : 1, wanted: shards, slotOf: () => undefined }
      },
    }
    const near = await env.work({ queues: [queue], ...OFTEN, splitter: leaving })
    const far = await env.work({ queues: [queue], ...NEVER, splitter: missing })
    await eventually(async () => expect(await held(queue, near, far)).toEqual([1, 1]))
  })
})

test('of many who see a change few tell of it', async () => {
  const queue = env.queue({ shards: 8, perform() {} })
  const compared = new Map<number, number>()
  const lockstep = new Lockstep({
    connectionString: env.connectionString,
    logger: env.logger,
    instrumentation: [
      {
        rebalance:
          ({ processId }) =>
          () =>
            void compared.set(processId, (compared.get(processId) ?? 0) + 1),
      },
    ],
  })
  env.later(() => lockstep.close())
  const workers = Array.from({ length: 4 }, () => env.create({ queues: [queue], ...OFTEN }, lockstep))
  for (const worker of workers) await worker.start()
  await eventually(async () => expect(await held(queue, ...workers)).toEqual([2, 2, 2, 2]))
  // Of two comparisons the second begins after this. So when all have ended two, nobody reports an earlier state any more.
  const allHaveCompared = async () => {
    const before = new Map(compared)
    await eventually(() => {
      for (const { processId } of workers)
        expect(compared.get(processId)).toBeGreaterThanOrEqual(before.get(processId)! + 2)
    })
  }
  await allHaveCompared()
  const messages = await told()
  const states = () => messages.filter((message) => /^rebalance -?\d+$/.test(message))
  const pauses = 5
  for (let pause = 1; pause <= pauses; pause += 1) {
    const former = states().at(-1)
    await env.sql('UPDATE lockstep.queues SET paused_at = $2 WHERE name = $1', [
      queue.name,
      pause % 2 ? new Date() : null,
    ])
    await allHaveCompared()
    await eventually(() => expect([undefined, former]).not.toContain(states().at(-1)))
  }
  expect(new Set(states()).size).toBe(2)
  expect(states().length).toBeLessThan(3 * pauses)
})

test('an idle worker costs less than 4 transactions a second, and finds what woke nobody', async () => {
  const queue = env.queue({ perform() {} })
  const worker = await env.work({ queues: [queue] })
  await env.idle(queue)
  const committed = async () => {
    const [row] = await env.sql<{ count: number }>(
      'SELECT xact_commit::int AS count FROM pg_stat_database WHERE datname = current_database()',
    )
    return row!.count
  }
  // Sessions report their transactions at most once a second, so the first ones that are counted are old.
  let last = await committed()
  const perSecond = async (seconds: number) => {
    const before = last
    await new Promise((resolve) => setTimeout(resolve, seconds * 1_000))
    last = await committed()
    return (last - before) / seconds
  }
  await eventually(async () => expect(await perSecond(4)).toBeLessThan(4), 40_000)
  const completed = next(worker, 'completed')
  const tx = await env.session()
  await tx.query(`BEGIN; SET LOCAL lockstep.wake = off`)
  await tx.query('SELECT lockstep.enqueue($1, $2)', [queue.name, 'quiet'])
  await tx.query('COMMIT')
  await completed
}, 60_000)

import { expect, test } from 'vitest'
import { Discard, Lockstep, type Logger, type Queue, Snooze } from '../../src/index.ts'
import { eventually, type Perform, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

interface Line {
  readonly event?: string
}

/** A worker whose logger keeps the lines at `debug`. */
async function worked(
  queue: Queue,
  isLevelEnabled?: Logger['isLevelEnabled'],
): Promise<{ lines: Line[]; lockstep: Lockstep }> {
  const lines: Line[] = []
  const logger: Logger = {
    ...env.logger,
    debug: (fields) => void lines.push(fields),
    ...(isLevelEnabled && { isLevelEnabled }),
  }
  const lockstep = new Lockstep({ connectionString: env.connectionString, logger })
  env.later(() => lockstep.close())
  const worker = env.create({ queues: [queue], slots: 1 }, lockstep)
  await worker.start()
  return { lines, lockstep }
}

const batches = (lines: readonly Line[]) => lines.filter(({ event }) => event === 'batch')

const ENDS = {
  completed: 0,
  expired: 0,
  failed: 0,
  died: 0,
  discarded: 0,
  dropped: 0,
  snoozed: 0,
  released: 0,
  crashed: 0,
}

const perform: Perform = (batch, context) => {
  for (const [id, payloads] of batch) {
    if (id === 'bad') context.fail(id, new Error('secret'))
    if (id === 'dead') context.fail(id, new Discard('no use'))
    if (id === 'gone') context.fail(id, new Discard('no use', { morgue: false }))
    if (id === 'later')
      context.fail(id, new Snooze(3_600))
      // What the handler takes out counts all the same.
    ;(payloads as unknown[]).length = 0
  }
}

test.each(['plain', 'transactional'])(
  'a %s batch has a line at `debug` that tells how its jobs ended',
  async (kind) => {
    const ids = ['bad', 'dead', 'gone', 'good', 'later', 'well']
    const options = { shards: 1, batchSize: 10, retryIn: () => 3_600, perform }
    const queue = kind === 'plain' ? env.queue(options) : env.transactional(options)
    await env.lockstep.enqueue(queue, [
      ...ids.map((id) => ({ id, payload: { secret: 1 } })),
      { id: 'good', payload: { secret: 2 } },
    ])
    const { lines } = await worked(queue)
    const line = await eventually(() => {
      expect(batches(lines)).toHaveLength(1)
      return batches(lines)[0]!
    })
    expect(line).toEqual({
      event: 'batch',
      queue: queue.name,
      shard: 0,
      slot: 0,
      jobs: 6,
      payloads: 7,
      ...ENDS,
      completed: 2,
      failed: 1,
      discarded: 1,
      dropped: 1,
      snoozed: 1,
      duration: expect.any(Number),
    })
    expect(JSON.stringify(lines)).not.toContain('secret')
  },
)

test('a batch makes no line where the logger says that no one would see it', async () => {
  const queue = env.queue({ perform() {} })
  const asked: string[] = []
  const { lines } = await worked(queue, (level) => {
    asked.push(level)
    return false
  })
  await env.lockstep.enqueue(queue, { id: 'a' })
  await eventually(async () => expect(await env.jobs(queue)).toBe(0))
  expect(batches(lines)).toEqual([])
  expect(new Set(asked)).toEqual(new Set(['debug']))
})

test('a logger whose answer fails gets the lines', async () => {
  const queue = env.queue({ perform() {} })
  const { lines } = await worked(queue, () => {
    throw new Error('no idea')
  })
  await env.lockstep.enqueue(queue, { id: 'a' })
  await eventually(() => expect(batches(lines)).toMatchObject([{ jobs: 1, payloads: 1, completed: 1 }]))
})

import { describe, expect, test } from 'vitest'
import { parseMessage } from '../../src/store/wake.ts'
import { next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()

describe('a forged wake-up, which anybody who may connect can send', () => {
  const FORGED = (queueId: number) => [
    '',
    ' ',
    'x',
    '__proto__ 0:0:0',
    'echo',
    'echo \u001b[2J',
    `${queueId} 0:0`,
    `${queueId} 0:NaN:5`,
    `${queueId} 0:-1:5`,
    `${queueId} 0:99999:5`,
    `${queueId} 0:0.5:5`,
    `${queueId} 0:0:NaN`,
    `${queueId} 0:0:-9e300`,
    `${queueId} 0:0:-999999999999999999`,
    `${queueId} 0:0:999999999999999999`,
    `${queueId} 0:0:-210000000000000000`,
    `${queueId} -1:0:5`,
    `${queueId} 0x0:0:5`,
    `NaN 0:0:5`,
    `1e99 0:0:5 `,
    `${queueId} ${'0:0:1 '.repeat(1_300)}`,
    `'; DROP TABLE lockstep.jobs; --`,
  ]

  test('disturbs no worker', async () => {
    const queue = env.queue({ shards: 1, perform() {} })
    const failures: unknown[] = []
    const worker = env.create({ queues: [queue], poll: 60_000 })
    worker.on('failure', (error) => failures.push(error))
    await worker.start()
    // Gives the lane a cursor that is later than a forged time.
    const before = next(worker, 'completed')
    await env.lockstep.enqueue(queue, { id: 'before' })
    await before
    await env.idle(queue)
    const [row] = await env.sql<{ queue_id: number }>(
      'SELECT queue_id FROM lockstep.queues WHERE name = $1',
      [queue.name],
    )
    for (const message of FORGED(row!.queue_id)) {
      const done = next(worker, 'completed')
      await env.sql(`SELECT pg_notify('lockstep', $1)`, [message])
      await env.lockstep.enqueue(queue, { id: 'a' })
      await done
    }
    expect(failures).toEqual([])
    expect(env.warnings).toEqual([])
  })

  test('says nothing that no push could say', () => {
    const heads = FORGED(7).flatMap((text) => {
      const message = parseMessage(text)
      return message.kind === 'heads' ? message.heads : []
    })
    for (const { shard, lane, performIn } of heads) {
      for (const number of [shard, lane, performIn]) expect(Number.isInteger(number)).toBe(true)
      expect(lane).toBeLessThan(32_768)
      expect(Math.abs(performIn)).toBeLessThan(2.6e17)
    }
    expect(parseMessage('7 3:2:-1 x 4:0:253402300799999999')).toEqual({
      kind: 'heads',
      queueId: 7,
      heads: [
        { shard: 3, lane: 2, performIn: -1 },
        { shard: 4, lane: 0, performIn: Date.parse('9999-12-31T23:59:59Z') * 1000 },
      ],
    })
  })
})

import { describe, expect, test } from 'vitest'
import type { Queue } from '../../src/index.ts'
import { overlaps } from '../support/checker.ts'
import { Recorder } from '../support/recorder.ts'
import { Relay } from '../support/relay.ts'
import { pidOf } from '../support/store-environment.ts'
import { aborted, eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const PAST = Date.now() - 100_000
const ROUNDS = 5
/**
 * The most turns of a row that ROUNDS rounds may take. Each round waits for the row twice, and during pauses of a slow
 * machine the turns go on.
 */
const TURNS = 10_000

const env = useWorkers()

/** Pushes into an id without pause, so that its row is never free. */
async function relay(queue: Queue, id: string): Promise<Relay> {
  const push = (session: { query(text: string, values: unknown[]): Promise<unknown> }) =>
    session.query('SELECT lockstep.enqueue($1, $2, $3)', [queue.name, id, String(Math.random())])
  const made = new Relay(push, await env.session())
  await made.start(await env.session(), await env.session())
  env.later(() => made.stop())
  return made
}

describe('P8: an id that is pushed without pause', () => {
  test.each(['plain', 'transactional'])('of a %s queue is performed again and again', async (kind) => {
    const recorder = new Recorder()
    const perform = recorder.around()
    const queue = kind === 'plain' ? env.queue({ perform }) : env.transactional({ perform })
    await env.lockstep.enqueue(queue, { id: 'busy' })
    const busy = await relay(queue, 'busy')
    const worker = await env.work({ queues: [queue] })
    let completions = 0
    worker.on('completed', () => {
      completions += 1
    })
    await eventually(() => expect(completions).toBeGreaterThanOrEqual(ROUNDS))
    expect(busy.turns).toBeLessThan(TURNS)
  })

  test('fails, and goes back when the worker stops', async () => {
    const recorder = new Recorder()
    const queue = env.queue({
      perform: recorder.around(async (_, { signal }) => {
        if (recorder.runs.length > 2) await aborted(signal)
        throw new Error('no')
      }),
    })
    await env.lockstep.enqueue(queue, { id: 'busy' })
    const busy = await relay(queue, 'busy')
    const worker = env.create({ queues: [queue], shutdownTimeout: 0 })
    const retry = next(worker, 'failed', ({ retryCount }) => retryCount === 1)
    await worker.start()
    await retry
    await eventually(() => expect(recorder.runs).toHaveLength(3))
    expect(await worker.stop()).toBe(true)
    expect(busy.turns).toBeLessThan(TURNS)
    expect(await env.job(queue, 'busy')).toMatchObject({ claimed_by: null, crashes: 0, retry_count: 1 })
  })

  test('is performed among others of its lane, which need not wait for it', async () => {
    const recorder = new Recorder()
    const queue = env.queue({ shards: 1, perform: recorder.around() })
    await env.lockstep.enqueue(queue, { id: 'busy', performIn: PAST })
    await relay(queue, 'busy')
    let count = 0
    const more = () => {
      count += 1
      return env.lockstep.enqueue(queue, { id: `other-${count}` })
    }
    await more()
    const worker = env.create({ queues: [queue], poll: 50 })
    worker.on('completed', ({ ids }) => ids[0]!.startsWith('other') && void more())
    await worker.start()
    await eventually(() => expect(recorder.of('busy').length).toBeGreaterThanOrEqual(ROUNDS))
    expect(recorder.runs.length).toBeGreaterThan(2 * ROUNDS)
  })

  test('is not held up by rows that somebody holds all the while, and they are stored when he lets go', async () => {
    const gate = new Gate()
    const recorder = new Recorder()
    const held = Array.from({ length: 20 }, (_, index) => ({ id: `held-${index}` }))
    const queue = env.queue({
      shards: 1,
      batchSize: 21,
      perform: recorder.around(() => gate.opened),
    })
    await env.lockstep.enqueue(queue, [...held, { id: 'busy' }])
    const worker = await env.work({ queues: [queue], slots: 1 })
    await eventually(() => expect(recorder.runs).toHaveLength(21))
    const producer = await env.session()
    await producer.query('BEGIN')
    for (const { id } of held) await producer.query('SELECT lockstep.enqueue($1, $2)', [queue.name, id])
    const busy = await relay(queue, 'busy')
    let completions = 0
    worker.on('completed', ({ ids }) => {
      if (ids[0] === 'busy') completions += 1
    })
    gate.open()
    await eventually(() => expect(completions).toBeGreaterThanOrEqual(ROUNDS))
    expect(busy.turns).toBeLessThan(TURNS)
    await busy.stop()
    await producer.query('COMMIT')
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    for (const { id } of held) expect(recorder.of(id)).toHaveLength(2)
  })
})

describe('what was brought for a lane while its shard is at work', () => {
  /** Claims pass over `busy` twice and then bring it, while the handler of another job waits at the gate. */
  async function bring(gate: Gate) {
    const recorder = new Recorder()
    const queue = env.queue({
      shards: 1,
      perform: recorder.around((batch) => (batch.has('long') ? gate.opened : undefined)),
    })
    const jobs = ['busy', 'other', 'long'].map((id, index) => ({ id, performIn: PAST + index }))
    await env.lockstep.enqueue(queue, jobs)
    const producer = await env.session()
    await producer.query('BEGIN')
    await producer.query('SELECT lockstep.enqueue($1, $2, $3)', [queue.name, 'busy', '2'])
    const pid = await pidOf(producer)
    const worker = await env.work({ queues: [queue], slots: 1 })
    await eventually(async () => {
      const waiting = await env.sql('SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))', [
        pid,
      ])
      expect(waiting).toHaveLength(1)
    })
    await producer.query('COMMIT')
    await eventually(async () =>
      expect(await env.job(queue, 'busy')).toMatchObject({ claimed_by: worker.processId }),
    )
    expect(recorder.ids).toEqual(['other', 'long'])
    return { recorder, queue, worker }
  }

  test('P8: it is the next to begin, with what was committed while its row was waited for', async () => {
    const gate = new Gate()
    const { recorder, queue } = await bring(gate)
    gate.open()
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(recorder.ids).toEqual(['other', 'long', 'busy'])
    expect(recorder.of('busy')[0]!.payloads).toEqual(['', 2])
  })

  test('R15: it goes back, its numbers unchanged, when the worker takes nothing new', async () => {
    const gate = new Gate()
    const { recorder, queue, worker } = await bring(gate)
    await worker.quiet()
    await eventually(async () => expect(await env.job(queue, 'busy')).toMatchObject({ claimed_by: null }))
    expect(await env.job(queue, 'busy')).toMatchObject({ claimed_by: null, crashes: 0, retry_count: -1 })
    gate.open()
    expect(await worker.stop()).toBe(true)
    expect(recorder.ids).toEqual(['other', 'long'])
  })

  test('P1: it goes back when the connection is lost that holds the shard', async () => {
    const gate = new Gate()
    const { recorder, queue } = await bring(gate)
    await env.sql(
      `SELECT pg_terminate_backend(pid, 5000) FROM pg_locks
       WHERE locktype = 'advisory' AND granted AND classid = 'lockstep.jobs'::regclass
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
    )
    await eventually(async () => expect(await env.job(queue, 'busy')).toMatchObject({ claimed_by: null }))
    gate.open()
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(overlaps(recorder.runs)).toEqual([])
  })
})

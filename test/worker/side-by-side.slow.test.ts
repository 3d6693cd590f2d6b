import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { overlaps } from '../support/checker.ts'
import { Recorder } from '../support/recorder.ts'
import { block, eventually, Gate, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const ids = (count: number) =>
  Array.from({ length: count }, (_, index) => `id-${String(index).padStart(3, '0')}`)
const PAST = 1_536_323_288_000
const jobs = (count: number) => ids(count).map((id, index) => ({ id, performIn: PAST + index }))

describe('batches of one shard side by side', () => {
  test('as many as there are slots, with all that is due begun at once', async () => {
    const gate = new Gate()
    const recorder = new Recorder()
    const queue = env.queue({ shards: 1, perform: recorder.around(() => gate.opened) })
    const worker = await env.work({ queues: [queue], slots: 20 })
    await env.idle(queue)
    await env.lockstep.enqueue(queue, jobs(30))
    await eventually(() => expect(worker.report()).toHaveLength(20))
    expect(recorder.ids.toSorted()).toEqual(ids(20))
    gate.open()
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(recorder.runs).toHaveLength(30)
  })

  test('P1 P2: an id runs once at a time, and what was pushed meanwhile comes in its next round', async () => {
    const recorder = new Recorder()
    const queue = env.queue({
      shards: 1,
      perform: recorder.around(() => sleep(Math.random() * 4)),
    })
    await env.work({ queues: [queue], slots: 10 })
    for (let round = 0; round < 40; round += 1)
      await env.lockstep.enqueue(
        queue,
        ids(12).map((id) => ({ id, payload: round, score: round })),
      )
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(overlaps(recorder.runs)).toEqual([])
    for (const id of ids(12)) {
      const payloads = recorder.of(id).flatMap((run) => run.payloads)
      expect(payloads).toEqual(Array.from({ length: 40 }, (_, round) => round))
    }
  })

  test('P8: they begin in perform_in order', async () => {
    const recorder = new Recorder()
    const queue = env.queue({
      shards: 1,
      perform: recorder.around(() => sleep(2)),
    })
    await env.lockstep.enqueue(queue, jobs(200).toReversed())
    await env.work({ queues: [queue], slots: 5 })
    await eventually(() => expect(recorder.runs).toHaveLength(200))
    expect(recorder.ids).toEqual(ids(200))
  })

  test('P8: also where a claim takes longer than what is prefetched', async () => {
    await slowClaims('id-[0-9]+0')
    const recorder = new Recorder()
    const queue = env.queue({
      shards: 1,
      perform: recorder.around(() => sleep(1)),
    })
    await env.lockstep.enqueue(queue, jobs(900))
    await env.work({ queues: [queue], slots: 5 })
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(recorder.ids).toEqual(ids(900))
  })

  test.each([
    ['block the event loop', 4_000, (run: number) => run % 300 === 299 && block(100)],
    ['of all slots become slow', 15_000, (run: number) => isInBurst(run) && sleep(60)],
  ])('P8: also where handlers %s, and what is prefetched is released', async (_, count, slowness) => {
    const recorder = new Recorder()
    let runs = 0
    const queue = env.queue({ shards: 1, perform: recorder.around(() => slowness(runs++)) })
    await env.lockstep.enqueue(queue, jobs(count))
    await env.work({ queues: [queue], slots: 5 })
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(recorder.ids).toEqual(ids(count))
  })
})

/**
 * Five runs of each 250, at changing places, so that they are sometimes the first and sometimes the last prefetched
 * jobs.
 */
function isInBurst(run: number): boolean {
  const place = (run % 250) - ((Math.floor(run / 250) * 93) % 250)
  return place >= 0 && place < 5
}

/** A claim takes 5 ms longer for each matching job that it brings. */
async function slowClaims(pattern: string): Promise<void> {
  await env.sql(`CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_sleep(0.005); RETURN new; END $$;
    CREATE TRIGGER dawdle BEFORE UPDATE ON lockstep.jobs FOR EACH ROW
      WHEN (old.claimed_by IS NULL AND old.id ~ '^${pattern}$') EXECUTE FUNCTION dawdle()`)
  env.later(() => env.sql('DROP TRIGGER dawdle ON lockstep.jobs; DROP FUNCTION dawdle'))
}

describe('concurrency', () => {
  test('bounds the batches of a queue that a process has in work, and leaves the other slots to others', async () => {
    const gate = new Gate()
    const recorder = new Recorder()
    const bound = env.queue({ shards: 4, concurrency: 2, perform: recorder.around(() => gate.opened) })
    const free = env.queue({ shards: 1, perform() {} })
    await env.lockstep.enqueue(bound, jobs(20))
    const worker = await env.work({ queues: [bound, free], slots: 6 })
    await eventually(() => expect(worker.report()).toHaveLength(2))
    await env.lockstep.enqueue(free, jobs(50))
    await eventually(async () => expect(await env.jobs(free)).toBe(0))
    expect(worker.report()).toHaveLength(2)
    let most = 0
    worker.on('started', () => {
      most = Math.max(most, worker.report().filter(({ queue }) => queue === bound.name).length)
    })
    gate.open()
    await eventually(async () => expect(await env.jobs(bound)).toBe(0))
    expect(recorder.runs).toHaveLength(20)
    expect(most).toBeLessThanOrEqual(2)
  })

  test.each([0, 1.5, -1])('not of %s', (concurrency) => {
    expect(() => env.queue({ concurrency })).toThrow(/concurrency must be a whole number/)
  })
})

import { describe, expect, test } from 'vitest'
import { type Scheduler, seq } from '../../src/index.ts'
import { Prefetch } from '../../src/worker/schedule/prefetch.ts'
import { overlaps } from '../support/checker.ts'
import { Recorder } from '../support/recorder.ts'
import { block, eventually, Gate, next, useWorkers } from '../support/worker-environment.ts'

const env = useWorkers()
const ids = (count: number) =>
  Array.from({ length: count }, (_, index) => `id-${String(index).padStart(4, '0')}`)
const PAST = 1_536_323_288_000
const jobs = (count: number) => ids(count).map((id, index) => ({ id, performIn: new Date(PAST + index) }))

/**
 * A queue whose handler is quick until the job `slow` comes, and a function that counts the claimed jobs. `atSlow` is called
 * as that job begins, before anybody can notice that its handler takes long.
 */
function growing(slow: string, gate: Gate, atSlow = () => {}) {
  const recorder = new Recorder()
  const queue = env.queue({
    shards: 1,
    perform: recorder.around(async (batch) => {
      if (!batch.has(slow) || recorder.of(slow).length > 1) return
      atSlow()
      await gate.opened
    }),
  })
  const claimed = async () => {
    const [row] = await env.sql<{ count: number }>(
      `SELECT count(*)::int AS count FROM lockstep.jobs j JOIN lockstep.queues q USING (queue_id)
       WHERE q.name = $1 AND j.claimed_by IS NOT NULL`,
      [queue.name],
    )
    return row!.count
  }
  return { recorder, queue, claimed }
}

/** Returns a function that tells how many jobs have been released since, or ended with more to do. */
async function countGoneBack() {
  await env.sql(`
    CREATE SEQUENCE gone_back;
    CREATE FUNCTION count_back() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('public.gone_back'); RETURN new; END $$;
    CREATE TRIGGER count_back BEFORE UPDATE ON lockstep.jobs FOR EACH ROW
      WHEN (old.claimed_by IS NOT NULL AND new.claimed_by IS NULL) EXECUTE FUNCTION count_back()`)
  env.later(() => env.sql('DROP FUNCTION count_back CASCADE; DROP SEQUENCE gone_back'))
  return async () => {
    const [row] = await env.sql<{ count: number }>('SELECT last_value::int AS count FROM gone_back')
    return row!.count
  }
}

describe('prefetched jobs', () => {
  test('R9 P8: each batch has batchSize ids at most, and they come in order, however many were taken', async () => {
    const batches: string[][] = []
    const queue = env.queue({
      shards: 1,
      batchSize: 3,
      perform: (batch) => void batches.push([...batch.keys()]),
    })
    await env.lockstep.enqueue(queue, jobs(400))
    await env.work({ queues: [queue], slots: 1 })
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(batches.flat()).toEqual(ids(400))
    for (const batch of batches) expect(batch.length).toBeLessThanOrEqual(3)
  })

  test('what has not begun is released, its numbers unchanged, when a handler becomes slow', async () => {
    const gate = new Gate()
    const { recorder, queue, claimed } = growing('id-0100', gate)
    await env.lockstep.enqueue(queue, jobs(300))
    await env.work({ queues: [queue], slots: 1 })
    await eventually(() => expect(recorder.of('id-0100')).toHaveLength(1))
    await eventually(async () => expect(await claimed()).toBe(1))
    const rows = await env.sql('SELECT DISTINCT retry_count, crashes, error FROM lockstep.jobs')
    expect(rows).toEqual([{ retry_count: -1, crashes: 0, error: null }])
    gate.open()
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(recorder.runs.map(({ id }) => id)).toEqual(ids(300))
  })

  test('it goes back too where handlers leave the event loop no turn', async () => {
    const queue = env.queue({
      shards: 1,
      perform(batch) {
        if ([...batch.keys()].some((id) => id >= 'id-0100')) block(20)
      },
    })
    await env.lockstep.enqueue(queue, jobs(160))
    let [longest, turnedAt] = [0, performance.now()]
    const turn = () => {
      longest = Math.max(longest, performance.now() - turnedAt)
      turnedAt = performance.now()
    }
    const turns = setInterval(turn, 1)
    env.later(() => clearInterval(turns))
    await env.work({ queues: [queue], slots: 1 })
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    // The jobs that are prefetched when handlers become slow would take more than half a second.
    expect(longest).toBeLessThan(400)
  })

  test('R15: what has not begun is released at stop', async () => {
    const gate = new Gate()
    const { recorder, queue, claimed } = growing('id-0100', gate)
    await env.lockstep.enqueue(queue, jobs(300))
    const worker = await env.work({ queues: [queue], slots: 1 })
    await eventually(() => expect(recorder.of('id-0100')).toHaveLength(1))
    const stopped = worker.stop()
    gate.open()
    expect(await stopped).toBe(true)
    expect(await claimed()).toBe(0)
    expect(recorder.runs.map(({ id }) => id)).toEqual(ids(101))
    expect(await env.jobs(queue)).toBe(199)
  })

  test('P8: what has not begun is released at once when its shard goes, and begins where that went', async () => {
    const gate = new Gate()
    const { recorder, queue } = growing('id-0100', gate, () => void worker.quiet())
    const worker = await env.work({ queues: [queue], slots: 1 })
    const other = await env.work({ queues: [queue], slots: 1 })
    await env.lockstep.enqueue(queue, jobs(300))
    await eventually(async () => expect(await env.jobs(queue)).toBe(1))
    expect(recorder.runs.map(({ id }) => id)).toEqual(ids(300))
    gate.open()
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(recorder.runs).toHaveLength(300)
    expect(other.report()).toEqual([])
  })

  test('P8: a shard goes once what was prefetched of it waits again: nobody begins what is due later', async () => {
    await env.sql(`
      CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.005); RETURN new; END $$;
      CREATE TRIGGER dawdle BEFORE UPDATE ON lockstep.jobs FOR EACH ROW
        WHEN (old.claimed_by IS NOT NULL AND new.claimed_by IS NULL) EXECUTE FUNCTION dawdle()`)
    env.later(() => env.sql('DROP FUNCTION dawdle CASCADE'))
    const gate = new Gate()
    const { recorder, queue } = growing('id-0100', gate, () => void worker.quiet())
    const worker = await env.work({ queues: [queue], slots: 1 })
    const other = await env.work({ queues: [queue], slots: 1 })
    env.later(() => other.stop())
    await env.lockstep.enqueue(queue, jobs(600))
    await eventually(async () => expect(await env.jobs(queue)).toBe(1), 20_000)
    expect(recorder.runs.map(({ id }) => id)).toEqual(ids(600))
    gate.open()
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    await worker.stop()
    await other.stop()
  }, 40_000)

  test('P1: what has not begun when the lease is lost does not begin', async () => {
    const gate = new Gate()
    const { recorder, queue } = growing('id-0100', gate)
    await env.lockstep.enqueue(queue, jobs(200))
    const worker = await env.work({ queues: [queue], slots: 1, lease: 1_000 })
    const lost = next(worker, 'leaseLost')
    await eventually(() => expect(recorder.of('id-0100')).toHaveLength(1))
    await env.sql('DELETE FROM lockstep.processes WHERE process_id = $1', [worker.processId])
    await lost
    gate.open()
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(overlaps(recorder.runs)).toEqual([])
    for (const id of ids(200).slice(101)) expect(recorder.of(id)).toHaveLength(1)
  })

  test('P5: a push into what is prefetched is the next round', async () => {
    const handed: unknown[] = []
    const queue = env.queue({
      shards: 1,
      async perform(batch) {
        if (batch.has('id-0100')) await env.lockstep.enqueue(queue, { id: 'id-0101', payload: 'more' })
        handed.push(...(batch.get('id-0101') ?? []))
      },
    })
    await env.lockstep.enqueue(queue, jobs(102))
    await env.work({ queues: [queue], slots: 1 })
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(handed).toEqual(['', 'more'])
  })

  test('R13: a scheduler is asked before each batch, however many were claimed', async () => {
    const queue = env.queue({ shards: 2, perform() {} })
    await env.lockstep.enqueue(queue, jobs(400))
    const inTurn = seq()
    const picked: number[] = []
    const scheduler: Scheduler = {
      pick(candidates) {
        const pick = inTurn.pick(candidates)
        if (pick) picked.push(pick.shard)
        return pick
      },
    }
    const worker = env.create({ queues: [queue], slots: 1, scheduler })
    // A slot that waits for a claim may pick another batch, which begins first. A pick whose claim brought nothing stays below.
    const shards: number[] = []
    const picks: (number | undefined)[] = []
    worker.on('started', ({ shard }) => {
      shards.push(shard)
      picks.push(picked.pop())
    })
    await worker.start()
    await eventually(() => expect(shards).toHaveLength(400))
    expect(picks).toEqual(shards)
    expect(new Set(shards).size).toBe(2)
  })

  test('hardly anything goes back where many shards have a backlog', async () => {
    const goneBack = await countGoneBack()
    const queue = env.queue({ shards: 100, batchSize: 25, perform() {} })
    await env.lockstep.enqueue(queue, jobs(20_000))
    const worker = await env.work({ queues: [queue], slots: 10 })
    env.later(() => worker.stop())
    await eventually(async () => expect(await env.jobs(queue)).toBe(0))
    expect(await goneBack()).toBeLessThan(4_000)
  })

  test('hardly anything goes back where queues take turns, and claims take long', {
    tags: 'slow',
    timeout: 90_000,
  }, async () => {
    const goneBack = await countGoneBack()
    await env.sql(`
      CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.0002); RETURN new; END $$;
      CREATE TRIGGER dawdle BEFORE UPDATE ON lockstep.jobs FOR EACH ROW
        WHEN (old.claimed_by IS NULL AND new.claimed_by IS NOT NULL) EXECUTE FUNCTION dawdle()`)
    env.later(() => env.sql('DROP FUNCTION dawdle CASCADE'))
    const queues = [1, 2, 3].map(() => env.queue({ perform() {} }))
    for (const queue of queues) await env.lockstep.enqueue(queue, jobs(2_000))
    const worker = await env.work({ queues, slots: 10 })
    env.later(() => worker.stop())
    for (const queue of queues) await eventually(async () => expect(await env.jobs(queue)).toBe(0), 60_000)
    // Some dozens, or hundreds beside a busy server; 11,000 if slots only wait for their claims.
    expect(await goneBack()).toBeLessThan(4_000)
  })

  test('handlers that are quicker than the server do not run ahead of what is stored', {
    tags: 'slow',
  }, async () => {
    let [performed, stored, most] = [0, 0, 0]
    const queue = env.queue({
      shards: 10,
      batchSize: 100,
      perform(batch) {
        performed += batch.size
        most = Math.max(most, performed - stored)
      },
    })
    for (let from = 0; from < 60_000; from += 10_000) {
      const some = Array.from({ length: 10_000 }, (_, index) => ({ id: String(from + index) }))
      await env.lockstep.enqueue(queue, some)
    }
    const worker = env.create({ queues: [queue], slots: 10 })
    worker.on('completed', (batch) => {
      stored += batch.ids.length
    })
    await worker.start()
    env.later(() => worker.stop())
    await eventually(() => expect(stored).toBe(60_000))
    expect(most).toBeLessThan(6_000)
  })

  test('P7: a lane that can’t be claimed does not hold up the others', async () => {
    await env.sql(`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
      CREATE TRIGGER refuse BEFORE UPDATE ON lockstep.jobs FOR EACH ROW WHEN (old.id = 'unclaimable') EXECUTE FUNCTION refuse()`)
    env.later(() => env.sql('DROP FUNCTION refuse CASCADE'))
    const bad = env.queue({ shards: 1, perform() {} })
    const good = env.queue({ shards: 1, perform() {} })
    await env.lockstep.enqueue(bad, { id: 'unclaimable', performIn: new Date(0) })
    await env.lockstep.enqueue(good, jobs(50))
    const worker = await env.work({ queues: [bad, good], slots: 4 })
    // Before the trigger is dropped: that takes a lock on the table, and could deadlock with a worker's locks on the
    // partitions.
    env.later(() => worker.stop())
    await eventually(async () => expect(await env.jobs(good)).toBe(0))
    expect(await env.jobs(bad)).toBe(1)
  })
})

describe('an prefetch', () => {
  const rounds = (count: number, size = 10) => Array.from({ length: count }, () => ({ size })) as never
  /** Reports that as much came as was asked for, and ended after `took` ms. */
  const eat = (prefetch: Prefetch, took: number, size = 10) => {
    const jobs = prefetch.jobsFor(1, 1)
    prefetch.satisfied(rounds(jobs, size), jobs, took)
    return jobs
  }

  test('grows while all of it ends quickly, up to a thousand jobs, four hundred of a lane', () => {
    const prefetch = new Prefetch(3)
    const asked = Array.from({ length: 9 }, () => eat(prefetch, 3))
    expect(asked).toEqual([3, 6, 12, 24, 48, 96, 192, 384, 400])
    for (let turn = 0; turn < 9; turn += 1) eat(prefetch, 3)
    expect([2, 8].map((lanes) => prefetch.jobsFor(lanes, 1))).toEqual([400, 125])
    expect(new Prefetch(5_000).jobsFor(1, 1)).toBe(5_000)
  })

  test('grows by as much as takes 5 ms, eight times at once at most', () => {
    const prefetch = new Prefetch(1)
    expect([1, 0.01, 2.5, 4.9].map((took) => eat(prefetch, took))).toEqual([1, 5, 40, 80])
    expect(prefetch.jobsFor(1, 1)).toBe(160)
  })

  test('is shared by the lanes that have something due, and grows by what came of each', () => {
    const prefetch = new Prefetch(1)
    for (let turn = 0; turn < 6; turn += 1) eat(prefetch, 3)
    expect([1, 4, 10, 1_000].map((lanes) => prefetch.jobsFor(lanes, 1))).toEqual([64, 16, 7, 1])
    prefetch.satisfied(rounds(16), 16, 3)
    expect(prefetch.jobsFor(1, 1)).toBe(80)
  })

  test('is a batch for each slot that could begin at once', () => {
    expect(new Prefetch(3).jobsFor(1, 4)).toBe(12)
    expect(new Prefetch(3).jobsFor(1, 100)).toBe(300)
    expect(new Prefetch(3).jobsFor(5, 1_000)).toBe(200)
  })

  test('does not grow where there was less than it asked for, and shrinks when handlers are slow', () => {
    const prefetch = new Prefetch(1)
    eat(prefetch, 3)
    prefetch.satisfied(rounds(1), 2, 3)
    expect(eat(prefetch, 10)).toBe(2)
    expect(eat(prefetch, 3)).toBe(2)
    expect(eat(prefetch, 30)).toBe(4)
    expect(eat(prefetch, 3)).toBe(2)
    expect(eat(prefetch, 60)).toBe(4)
    expect(prefetch.jobsFor(1, 1)).toBe(1)
  })

  test('is small for large payloads', () => {
    const prefetch = new Prefetch(1)
    for (let hand = 0; hand < 12; hand += 1) eat(prefetch, 1)
    expect(eat(prefetch, 1, 1_000_000)).toBe(400)
    expect(eat(prefetch, 1, 10_000_000)).toBe(2)
    expect(prefetch.jobsFor(1, 1)).toBe(1)
  })

  test('asks for less than a batch where no more of one would come with an answer', () => {
    const prefetch = new Prefetch(100)
    expect(prefetch.batch).toBe(100)
    prefetch.satisfied(rounds(100, 400_000), 100, 100)
    expect([prefetch.batch, prefetch.jobsFor(1, 1)]).toEqual([10, 10])
    const passed = Array.from({ length: 10 }, () => ({ size: 0, toLoad: true }))
    const come = Array.from({ length: 10 }, () => ({ size: 100_000, toLoad: false }))
    prefetch.satisfied([...come, ...passed] as never, 20, 100)
    expect(prefetch.batch).toBe(41)
    prefetch.satisfied(passed as never, 10, 100)
    expect(prefetch.batch).toBe(1)
    prefetch.satisfied(rounds(1, 10), 1, 100)
    expect(prefetch.batch).toBe(100)
  })
})

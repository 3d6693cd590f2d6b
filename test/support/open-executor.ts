import { defineQueue, type Queue } from '../../src/index.ts'
import { Instruments } from '../../src/instruments.ts'
import { silentLogger } from '../../src/logger.ts'
import type { Claim, Round } from '../../src/store/claim.ts'
import type { Wish } from '../../src/store/exchange.ts'
import { Executor, type ExecutorOptions } from '../../src/worker/performing/executor.ts'
import { InFlight } from '../../src/worker/performing/in-flight.ts'
import { Refusals } from '../../src/worker/schedule/admission.ts'
import { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import { ServerClock } from '../../src/worker/schedule/server-clock.ts'
import { Shard } from '../../src/worker/schedule/shard.ts'
import { Timetable } from '../../src/worker/schedule/timetable.ts'
import { eventually } from './worker-environment.ts'

export interface ServedOptions {
  readonly concurrency?: number
  /** As if the handler took its time, so that nothing is claimed ahead. Default false. */
  readonly isSlow?: boolean
  /** Gets the time at which the job is due, which is its id. */
  perform(id: string): Promise<void>
}

function round(performIn: number): Round {
  return {
    ...{ id: `${performIn}`, fence: 1, performIn, retryCount: -1, crashes: 0, rescued: false, error: null },
    ...{
      tenant: null,
      toLoad: false,
      payloads: ['v'],
      scores: [1],
      seqs: undefined,
      headers: undefined,
      expiries: undefined,
      expired: 0,
    },
    ...{ size: 3, cut: undefined },
  }
}

/** An executor of queues with one shard each, whose claims the test answers, and whose releases it sees. */
export function openExecutor(...queues: readonly ServedOptions[]) {
  const claims: { queueId: number; count: number; resolve: (claim: Claim) => void }[] = []
  const released: string[][] = []
  const clock = new ServerClock()
  const timetable = new Timetable(clock)
  const instruments = new Instruments([], silentLogger)
  const retention = { processId: 1, release() {} }
  const executor = new Executor({
    ...{ clock, timetable, instruments, logger: silentLogger, slots: 1, poll: 1_000, lockTimeout: 500 },
    refusals: new Refusals(clock, 1_000),
    inFlight: new InFlight(() => {}),
    middleware: [],
    membership: { processId: 1, retain: () => retention, holds: () => true },
    batcher: {
      claim: (_: number, { key: { queueId }, count }: Wish) =>
        new Promise<Claim>((resolve) => claims.push({ queueId, count, resolve })),
    },
    completer: {
      settle() {},
      release: async (_: unknown, rounds: readonly Round[]) => void released.push(rounds.map(({ id }) => id)),
    },
    describe: String,
    ready: () => true,
    onFailure() {},
    onLostAnswer: async () => {},
  } as unknown as ExecutorOptions)
  const lanes = queues.map(({ concurrency, perform, isSlow = false }, index) => {
    const queue = defineQueue(`queue-${index}`, {
      concurrency,
      perform: (batch) => perform([...batch.keys()][0]!),
    }) as Queue
    const served = new ServedQueue(queue, index, index)
    // As if a batch had just been quick.
    if (!isSlow) served.prefetch.satisfied([round(0)], 1, 0.1)
    const shard = new Shard(served, 0)
    timetable.add(shard)
    return shard.lane(0)
  })

  /** Answers the only claim under way of a queue, by its place, with jobs due at these times; more are due at `head`. */
  async function answer(queueId: number, performIns: readonly number[], head: number | null): Promise<void> {
    const isOf = (claim: { queueId: number }) => claim.queueId === queueId
    await eventually(() => {
      if (claims.filter(isOf).length !== 1) throw new Error(`${claims.length} claims are under way`)
    })
    const [claim] = claims.splice(claims.findIndex(isOf), 1)
    claim!.resolve({ rounds: performIns.map(round), head, passed: false })
  }
  return { executor, timetable, lanes, claims, released, answer }
}

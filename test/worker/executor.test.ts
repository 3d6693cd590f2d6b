import { expect, test } from 'vitest'
import { defineQueue } from '../../src/index.ts'
import { Instruments } from '../../src/instruments.ts'
import type { Claim, Round } from '../../src/store/claim.ts'
import { Executor, type ExecutorOptions } from '../../src/worker/performing/executor.ts'
import { InFlight } from '../../src/worker/performing/in-flight.ts'
import { Refusals } from '../../src/worker/schedule/admission.ts'
import { ServedQueue } from '../../src/worker/schedule/served-queue.ts'
import { ServerClock } from '../../src/worker/schedule/server-clock.ts'
import { Shard } from '../../src/worker/schedule/shard.ts'
import { Timetable } from '../../src/worker/schedule/timetable.ts'
import { eventually, Gate } from '../support/worker-environment.ts'

const logger = { debug() {}, info() {}, warn() {}, error() {} }

function round(performIn: number): Round {
  return {
    ...{ id: `${performIn}`, fence: 1, performIn, retryCount: -1, crashes: 0, rescued: false, error: null },
    ...{ toLoad: false, payloads: ['v'], scores: [1], headers: undefined, size: 3, cut: undefined },
  }
}

/** A lane whose claims and releases the test answers, and slots that serve it. */
function open(perform: (id: string) => Promise<void>) {
  const claims: ((claim: Claim) => void)[] = []
  const released: string[][] = []
  const clock = new ServerClock()
  const timetable = new Timetable(clock)
  const instruments = new Instruments([], logger)
  const retention = { processId: 1, release() {} }
  const executor = new Executor({
    ...{ clock, timetable, instruments, logger, slots: 1, poll: 1_000, lockTimeout: 500 },
    refusals: new Refusals(clock, 1_000),
    inFlight: new InFlight(() => {}),
    batchSettings: { middleware: [], logger, instruments, lockTimeout: 500 },
    membership: { processId: 1, retain: () => retention, holds: () => true },
    batcher: { claim: () => new Promise<Claim>((resolve) => claims.push(resolve)) },
    completer: {
      settle() {},
      release: async (_: unknown, rounds: readonly Round[]) => void released.push(rounds.map(({ id }) => id)),
    },
    describe: String,
    ready: () => true,
    onFailure() {},
    onLostAnswer: async () => {},
  } as unknown as ExecutorOptions)
  const served = new ServedQueue(
    defineQueue('served', { perform: (batch) => perform([...batch.keys()][0]!) }),
    1,
  )
  // As if a batch had just been quick.
  served.prefetch.satisfied([round(0)], 1, 0.1)
  const shard = new Shard(served, 0)
  timetable.add(shard)
  return { executor, lane: shard.lane(0), claims, released }
}

test('P8: what a claim brings after jobs of its lane were released is released, too: it is due after them', async () => {
  const gate = new Gate()
  const begun: string[] = []
  const { executor, lane, claims, released } = open(async (id) => {
    begun.push(id)
    if (id === '3') await gate.opened
  })
  const serve = () => executor.serve(lane, 0)
  const answer = async (performIns: number[]) => {
    await eventually(() => expect(claims).toHaveLength(1))
    claims.pop()!({ rounds: performIns.map(round), head: 9, passed: false })
  }
  const first = serve()
  await answer([1])
  await first
  const second = serve()
  await answer([2, 3, 4, 5])
  await second
  const third = serve()
  // Half of the portion has begun, so the next jobs are claimed already; but its third one takes its time.
  await eventually(() => expect(released).toEqual([['4', '5']]))
  await answer([6])
  await new Promise(setImmediate)
  const fourth = serve()
  await answer([4])
  await fourth
  expect(begun).toEqual(['1', '2', '3', '4'])
  expect(released).toEqual([['4', '5'], ['6']])
  gate.open()
  await third
})

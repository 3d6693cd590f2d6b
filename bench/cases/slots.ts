import { setTimeout as sleep } from 'node:timers/promises'
import { type Bench, type Case, type Figures, SETTLE } from '../case.ts'
import { LOCKSTEP, POSTGRES_PEERS, standard } from '../entrants.ts'
import { Check } from '../measure/check.ts'
import { lasting } from '../measure/handler.ts'
import { single } from './paced.ts'
import { processAll } from './work.ts'

/** ms of a handler that waits for something nearby. */
const SHORT = 5
/** ms of a handler that waits for someone else's service. */
const LONG = 500
const PICK_UPS = 50

const slots = (
  [
    [64, 128],
    [256, 512],
    [1_000, 2_000],
  ] as const
).map(
  ([count, shards]): Case => ({
    name: `slots-${count}`,
    title: `processing by ${count.toLocaleString('en')} slots on ${shards.toLocaleString('en')} shards, ${SHORT} ms each`,
    unit: 'jobs/s',
    concurrency: count,
    tuning: { shards },
    entrants: standard([LOCKSTEP]),
    full: { jobs: 200_000, patience: 40 },
    quick: { jobs: 30_000, patience: 6 },
    inQuick: false,
    run: (bench) =>
      processAll(
        bench,
        (seq) => ({ key: 'job', seq }),
        (check) => lasting(SHORT, check),
      ),
  }),
)

const pickUps = (
  [
    [5, 5],
    [200, 2_000],
  ] as const
).map(
  ([count, shards]): Case => ({
    name: `pick-up-${count}-${shards}`,
    title: `${PICK_UPS} single pushes a second, ${count} slots on ${shards.toLocaleString('en')} shards`,
    unit: 'ms',
    concurrency: count,
    tuning: { shards },
    entrants: standard([LOCKSTEP]),
    full: { jobs: 20 * PICK_UPS, patience: 20 },
    quick: { jobs: 4 * PICK_UPS, patience: 5 },
    inQuick: false,
    run: (bench) => single(bench, PICK_UPS),
  }),
)

/** ms from the call that enqueues a bulk until an idle worker has done all of it. */
async function untilDone({ contender, size }: Bench): Promise<Figures> {
  const check = new Check('any', size.jobs)
  await contender.work(lasting(LONG, check))
  await sleep(SETTLE)
  const calledAt = performance.now()
  await contender.enqueue(Array.from({ length: size.jobs }, (_, seq) => ({ key: 'job', seq })))
  await check.finish.within(size.patience * 1000)
  return { value: performance.now() - calledAt, undone: size.jobs - check.done }
}

const slow: Case = {
  name: 'slow-50',
  title: `100 jobs of ${LONG} ms by 50 slots`,
  unit: 'ms',
  concurrency: 50,
  entrants: standard([LOCKSTEP, ...POSTGRES_PEERS]),
  full: { jobs: 100, patience: 60 },
  quick: { jobs: 100, patience: 20 },
  inQuick: false,
  run: untilDone,
}

export const slotCases: readonly Case[] = [...slots, ...pickUps, slow]

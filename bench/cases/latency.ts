import { setTimeout as sleep } from 'node:timers/promises'
import { type Bench, type Case, type Figures, SETTLE } from '../case.ts'
import { LOCKSTEP, NOTIFIED, standard } from '../entrants.ts'
import { Check } from '../measure/check.ts'
import { oneByOne } from '../measure/pace.ts'
import { percentilesOf } from '../measure/percentile.ts'

/** ms from the call that enqueues to the handler's start, one job after the other. */
async function pickUp({ contender, size }: Bench): Promise<Figures> {
  let onStart = (_at: number) => {}
  await contender.work(new Check('any', Number.POSITIVE_INFINITY, () => onStart(performance.now())))
  await sleep(SETTLE)
  const latencies = await oneByOne(size.jobs, async (seq) => {
    const started = new Promise<number>((resolve) => {
      onStart = resolve
    })
    await contender.enqueue([{ key: 'job', seq }])
    return started
  })
  return percentilesOf(latencies)
}

/** ms from when jobs are due to their handlers' start, with a job every 10 ms. */
async function dueTime({ contender, size }: Bench): Promise<Figures> {
  const now = () => performance.timeOrigin + performance.now()
  const lateness: number[] = []
  const first = Math.ceil(now()) + SETTLE + 500
  const dueOf = (seq: number) => first + seq * 10
  const check = new Check('any', size.jobs, ({ seq }) => lateness.push(now() - dueOf(seq)))
  await contender.work(check)
  await contender.enqueue(
    Array.from({ length: size.jobs }, (_, seq) => ({ key: 'job', seq, due: dueOf(seq) })),
  )
  await check.finish.within(SETTLE + size.jobs * 10 + size.patience * 1000)
  if (lateness.some((late) => late < -1)) throw new Error('a job was started before it was due')
  return { ...percentilesOf(lateness), undone: size.jobs - check.done }
}

/**
 * ms from one round of an id to the next, while a producer pushes into it every ms, over as many connections as it
 * needs.
 */
async function busyId({ contender, size }: Bench): Promise<Figures> {
  const starts: number[] = []
  await contender.work({ starts: () => void starts.push(performance.now()), ends() {} })
  await sleep(SETTLE)
  const pushes: Promise<unknown>[] = []
  for (let seq = 0; seq < size.jobs; seq += 1) {
    pushes.push(contender.enqueue([{ key: 'busy', seq }]))
    await sleep(1)
  }
  await Promise.all(pushes)
  return percentilesOf(starts.slice(1).map((at, round) => at - starts[round]!))
}

export const latencyCases: readonly Case[] = [
  {
    name: 'pick-up',
    title: 'pick-up by an idle worker',
    unit: 'ms',
    entrants: NOTIFIED,
    full: { jobs: 500, patience: 60 },
    quick: { jobs: 200, patience: 20 },
    run: pickUp,
  },
  {
    name: 'due-time',
    title: 'start after due time',
    unit: 'ms',
    entrants: NOTIFIED,
    full: { jobs: 500, patience: 10 },
    quick: { jobs: 200, patience: 3 },
    run: dueTime,
  },
  {
    name: 'busy-id',
    title: 'rounds of an id that is pushed every ms',
    unit: 'ms',
    ordering: 'per key',
    entrants: standard([LOCKSTEP]),
    full: { jobs: 10_000, patience: 60 },
    quick: { jobs: 3_000, patience: 20 },
    run: busyId,
  },
]

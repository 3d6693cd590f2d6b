import { setTimeout as sleep } from 'node:timers/promises'
import { fair, lag, type Scheduler, seq, strict, weighted } from 'pg-lockstep'
import { type Bench, type Case, type Figures, SETTLE } from '../case.ts'
import type { Watcher } from '../contender.ts'
import { openNeighbours } from '../contenders/neighbours.ts'
import { LOCKSTEP, POSTGRES_PEERS, standard } from '../entrants.ts'
import { failing, lasting } from '../measure/handler.ts'
import { Latencies } from '../measure/latencies.ts'
import { pace } from '../measure/pace.ts'
import { fill, processAll, settle } from './work.ts'

const namesOf = (count: number) => Array.from({ length: count }, (_, index) => `queue-${index}`)

const FRESH_RATE = 20
/** ms */
const HANDLER = 1

/** ms from a push to its start in nine queues, while the tenth has more to do than can be done by the end. */
async function backlog({ setting, size, pool }: Bench): Promise<Figures> {
  const [behind, ...others] = namesOf(10)
  const neighbours = openNeighbours(setting, [behind!, ...others])
  // Negative numbers, since these do not count.
  await fill(neighbours, size.jobs, (index) => ({ key: behind!, seq: -1 - index }))
  await settle(pool)
  const fresh = FRESH_RATE * size.seconds!
  const latencies = new Latencies(fresh)
  let left = size.jobs
  const watcher: Watcher = {
    starts(updates) {
      left -= updates.filter(({ key }) => key === behind).length
      latencies.starts(updates)
    },
    ends() {},
  }
  await neighbours.work(lasting(HANDLER, watcher))
  await sleep(SETTLE)
  await pace(FRESH_RATE, { from: 0, to: fresh }, (seq) => {
    latencies.begins(seq)
    return neighbours.enqueue([{ key: others[seq % others.length]!, seq }])
  })
  await latencies.finish.within(size.patience * 1000)
  if (left <= 0) throw new Error('the backlog was done before the end')
  return latencies.figures()
}

const backlogs: Case = {
  name: 'backlog',
  title: 'a job in one of nine queues beside one with a backlog',
  unit: 'ms',
  entrants: standard([LOCKSTEP]),
  full: { jobs: 1_000_000, seconds: 20, patience: 20 },
  quick: { jobs: 100_000, seconds: 5, patience: 2 },
  inQuick: false,
  run: backlog,
}

const failures: Case = {
  name: 'failing',
  title: 'jobs that fail',
  unit: 'jobs/s',
  retryIn: 3_600,
  entrants: standard([LOCKSTEP, ...POSTGRES_PEERS]),
  full: { jobs: 20_000, patience: 40 },
  quick: { jobs: 5_000, patience: 6 },
  inQuick: false,
  run: (bench) => processAll(bench, (seq) => ({ key: 'job', seq }), failing),
}

const QUEUES = namesOf(3)
const SCHEDULERS: Record<string, () => Scheduler> = {
  lag,
  fair,
  strict: () => strict(QUEUES),
  seq,
  weighted: () => weighted({ 'queue-0': 6, 'queue-1': 3, 'queue-2': 1 }),
  own: () => ({ pick: (candidates) => candidates[0] }),
}

const schedulers = Object.entries(SCHEDULERS).map(
  ([name, scheduler]): Case => ({
    name: `scheduler-${name}`,
    title: `processing three queues, ${name === 'own' ? 'a scheduler of one’s own' : `scheduler ${name}`}`,
    unit: 'jobs/s',
    entrants: standard([LOCKSTEP]),
    full: { jobs: 60_000, patience: 60 },
    quick: { jobs: 15_000, patience: 6 },
    inQuick: false,
    run(bench) {
      const contender = openNeighbours(bench.setting, QUEUES, scheduler())
      return processAll({ ...bench, contender }, (seq) => ({ key: QUEUES[seq % QUEUES.length]!, seq }))
    },
  }),
)

export const neighbourCases: readonly Case[] = [backlogs, failures, ...schedulers]

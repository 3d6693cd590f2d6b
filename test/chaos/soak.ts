import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { startProgress } from '../../src/cli/progress.ts'
import { type Blow, draw, strike } from './battle.ts'
import { Chance } from './chance.ts'
import { Cluster } from './cluster.ts'
import type { Fault } from './fault.ts'
import { FAULTS } from './faults.ts'
import { complaints, judge } from './judge.ts'
import { endure, isWell } from './load/load.ts'
import { measureRecovery } from './recovery.ts'
import { count, drawEndurance, drawRecoveries, drawReport, drawSummary } from './report.ts'
import { LARGE } from './scale.ts'

const USAGE = `npm run soak -- [--minutes N] [--seed S|random] [--fault part-of-its-name]
npm run soak -- --profile recovery [--repeats N]
npm run soak -- --profile load [--minutes N]

Injects faults, alone and side by side, into producers and workers at work on a Postgres of their own, and checks
every promise against the log of what handlers did. Exits with 1 if one was broken. The seed, a whole number, is told
first; "random", or none, draws one.

The profile "recovery" measures how long it takes until work goes on, with the defaults of a worker, and exits with 1
if that is longer than it may be.

The profile "load" keeps a million ids waiting in 500 queues, with ten thousand payloads on one id and payloads of a
megabyte, for an hour unless told otherwise, and exits with 1 if the worker's memory, a table, an index or the number of
locks grew.`

const A_MILLION = 1_000_000
const MOST_SEEDS = 2 ** 31
const WORKERS = 3
const PRODUCERS = 3

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string' },
      seed: { type: 'string', default: 'random' },
      fault: { type: 'string', default: '' },
      profile: { type: 'string', default: 'faults' },
      repeats: { type: 'string', default: '5' },
      help: { type: 'boolean', default: false },
    },
  })
  const { profile } = values
  const minutes = Number(values.minutes ?? (profile === 'load' ? 60 : 10))
  const seed = values.seed === 'random' ? randomInt(MOST_SEEDS) : Number(values.seed)
  const faults = FAULTS.filter(({ name }) => name.includes(values.fault))
  if (
    values.help ||
    !['faults', 'recovery', 'load'].includes(profile) ||
    !(minutes > 0) ||
    !Number.isInteger(seed) ||
    faults.length === 0
  ) {
    console.log(USAGE)
    return values.help ? 0 : 2
  }
  if (profile === 'recovery') return recover(Number(values.repeats))
  if (profile === 'load') return bear(minutes * 60_000)
  console.log(`seed ${seed}: a soak of ${minutes} minutes, Node ${process.version}`)
  return soak(minutes * 60_000, new Chance(seed), faults)
}

async function recover(repeats: number): Promise<number> {
  const found = await measureRecovery(repeats, (line) => console.log(line))
  console.log(drawRecoveries(found))
  return found.every(({ limit, took }) => Math.max(...took) <= limit) ? 0 : 1
}

async function bear(duration: number): Promise<number> {
  const found = await endure({ duration, waiting: A_MILLION, tell: (line) => console.log(line) })
  console.log(drawEndurance(found))
  return isWell(found) ? 0 : 1
}

async function soak(duration: number, chance: Chance, faults: readonly Fault[]): Promise<number> {
  const cluster = await Cluster.open({ workers: WORKERS, producers: PRODUCERS, scale: LARGE })
  let unbroken = false
  try {
    const { blows, broken } = await fight(cluster, duration, chance, faults)
    if (broken) console.error(broken)
    const verdict = judge(cluster, await cluster.settle())
    console.log(drawReport(blows, faults, verdict))
    console.log(drawSummary(blows, verdict, duration / 1000))
    unbroken = !broken && complaints(verdict).length === 0
    return unbroken ? 0 : 1
  } finally {
    const logs = await cluster.close({ keepsLogs: !unbroken })
    if (logs)
      console.log(`What handlers did, what was pushed and what the library said is written down in ${logs}`)
  }
}

interface Fight {
  readonly blows: readonly Blow[]
  /** The error of a fault that could not be injected, or after which work did not go on. */
  readonly broken: unknown
}

/** Injects each fault once, alone, then random ones until time is up. Holds a snapshot all the time. */
async function fight(
  cluster: Cluster,
  duration: number,
  chance: Chance,
  faults: readonly Fault[],
): Promise<Fight> {
  const until = performance.now() + duration
  const progress = startProgress({ label: 'soak', noun: 'faults', total: duration })
  const blows: Blow[] = []
  const upcoming = faults.map((fault) => [fault])
  cluster.holdSnapshot()
  try {
    await cluster.probe()
    while (performance.now() < until) {
      blows.push(await strike(cluster, chance, upcoming.shift() ?? draw(chance, faults)))
      progress.update(duration - (until - performance.now()), count(blows))
    }
    return { blows, broken: undefined }
  } catch (error) {
    return { blows, broken: error }
  } finally {
    progress.stop()
  }
}

process.exitCode = await main()

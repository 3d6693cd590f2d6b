import Table from 'cli-table3'
import { BARE, LOCKSTEP, POSTGRES_PEERS, REDIS_PEERS } from '../entrants.ts'
import { dailyGoals } from './daily.ts'
import {
  above,
  atLeast,
  atMost,
  below,
  type Goal,
  ours,
  p50,
  p99,
  rates,
  type Verdict,
  value,
} from './goal.ts'
import type { Line, Summary } from './summary.ts'
import { format } from './table.ts'

const PEERS = [...POSTGRES_PEERS, ...REDIS_PEERS]

export const goals: readonly Goal[] = [
  atLeast('bulk enqueue of 1,000', 1.2, 'best Postgres peer', (s) =>
    rates(s, 'enqueue-bulk', 'default', POSTGRES_PEERS),
  ),
  atLeast('one producer, one by one', 1.7, 'best Postgres peer', (s) =>
    rates(s, 'enqueue-1', 'default', POSTGRES_PEERS),
  ),
  atLeast('10 producers, one by one', 4.2, 'best Postgres peer', (s) =>
    rates(s, 'enqueue-10', 'default', POSTGRES_PEERS),
  ),
  ...['none', 'waiting', 'busy'].map((workers) =>
    atLeast(`32 producers with a domain write, workers ${workers}`, 0.9, 'bare rows', (s) =>
      rates(s, `enqueue-tx-${workers}`, 'default', [BARE]),
    ),
  ),
  atLeast('processing, defaults, concurrency 10', 4, 'best Postgres peer', (s) =>
    rates(s, 'work-10', 'default', POSTGRES_PEERS),
  ),
  atLeast('processing, defaults, concurrency 10', 1, 'BullMQ on Redis', (s) =>
    rates(s, 'work-10', 'default', REDIS_PEERS),
  ),
  atLeast('processing, best configuration', 1.6, 'best peer of any kind', (s) =>
    rates(s, 'work-10', 'best', PEERS),
  ),
  atLeast('1,000 keys in strict order', 5, 'best peer', (s) =>
    rates(s, 'order-1000-interleaved', 'best', POSTGRES_PEERS),
  ),
  ...[10, 10_000].map((keys) =>
    above(`${keys.toLocaleString('en')} keys in strict order`, 7_000, `order-${keys}-interleaved`),
  ),
  { title: 'keys in strict order', goal: 'WAL per job the same at all three', reached: sameWal },
  { title: 'keys in strict order', goal: 'none out of order, of ours', reached: inOrder },
  atLeast('floor of enqueue', 0.5, 'bare SQL', (s) =>
    ours(s.find('enqueue-bulk', LOCKSTEP), s.find('floor-in', BARE)),
  ),
  atLeast('floor of processing', 0.8, 'bare SQL', (s) =>
    ours(s.find('work-10', LOCKSTEP, 'best'), s.find('floor-out', BARE)),
  ),
  atMost('floor of pick-up', 1.5, 'bare SQL', (s) =>
    ours(s.find('pick-up', LOCKSTEP), s.find('floor-pick-up', BARE)),
  ),
  below('pick-up by an idle worker', 'p50', 2.5, 'pick-up', p50),
  below('pick-up by an idle worker', 'p99', 6, 'pick-up', p99),
  ...(['value', 'p99'] as const).map((figure) => notAbovePeers(figure)),
  below('rounds of an id that is pushed every ms', 'p99', 100, 'busy-id', p99),
  below('due time', 'p99', 20, 'due-time', p99),
  { title: 'steady with a held snapshot', goal: 'at least 90 % of the rate without it', reached: heldRate },
  { title: 'steady with a held snapshot', goal: 'at most 2 × the p99 without it', reached: heldLatency },
  { title: 'depth', goal: 'claim at 10 million within 1.8 × of that at 10 thousand', reached: depth },
  below('worker memory, as `lockstep work`', 'RSS in MB', 160, 'memory', value),
  ...dailyGoals,
]

function notAbovePeers(figure: 'value' | 'p99'): Goal {
  const what = figure === 'value' ? 'p50' : figure
  return {
    title: 'pick-up by an idle worker',
    goal: `${what} not above the best Postgres peer's`,
    reached(summary) {
      const own = summary.find('pick-up', LOCKSTEP)?.[figure]
      const theirs = POSTGRES_PEERS.flatMap((name) => summary.find('pick-up', name)?.[figure] ?? [])
      if (own === undefined || theirs.length === 0) return undefined
      const best = Math.min(...theirs)
      return { reached: own <= best, figures: `${format(own)} to ${format(best)}` }
    },
  }
}

const ordered = (summary: Summary) =>
  [10, 1_000, 10_000].flatMap((keys) => summary.find(`order-${keys}-interleaved`, LOCKSTEP, 'best') ?? [])

/** Whether they are within a tenth of each other. */
function sameWal(summary: Summary): Verdict | undefined {
  const bytes = ordered(summary).map(({ walBytes }) => walBytes!)
  if (bytes.length < 3) return undefined
  return {
    reached: Math.max(...bytes) <= 1.1 * Math.min(...bytes),
    figures: `${bytes.map(format).join(', ')} bytes`,
  }
}

function inOrder(summary: Summary): Verdict | undefined {
  const counts = summary.lines
    .filter(({ name, benchCase }) => name === LOCKSTEP && benchCase.ordering === 'per key')
    .flatMap(({ outOfOrder }) => outOfOrder ?? [])
  if (counts.length === 0) return undefined
  const outOfOrder = counts.reduce((sum, count) => sum + count, 0)
  return { reached: outOfOrder === 0, figures: `${outOfOrder} in ${counts.length} cases` }
}

function steadyPair(summary: Summary): [plain: Line, held: Line] | undefined {
  const [plain, held] = ['steady', 'steady-held'].map((name) => summary.find(name, LOCKSTEP))
  return plain && held && [plain, held]
}

function heldRate(summary: Summary): Verdict | undefined {
  const pair = steadyPair(summary)
  if (!pair) return undefined
  const share = pair[1].value / pair[0].value
  return { reached: share >= 0.9, figures: `${format(100 * share)} %` }
}

function heldLatency(summary: Summary): Verdict | undefined {
  const pair = steadyPair(summary)
  if (!pair) return undefined
  const [plain, held] = pair.map(({ p99 }) => p99!) as [number, number]
  return {
    reached: held <= 2 * plain,
    figures: `${format(held / plain)} × (${format(held)} to ${format(plain)} ms)`,
  }
}

function depth(summary: Summary): Verdict | undefined {
  const [shallow, deep] = [10_000, 10_000_000].map((jobs) => summary.find(`depth-${jobs}`, LOCKSTEP))
  if (!shallow || !deep) return undefined
  const ratio = deep.value / shallow.value
  return {
    reached: ratio <= 1.8,
    figures: `${format(ratio)} × (${format(deep.value)} to ${format(shallow.value)} ms)`,
  }
}

/** A goal and whether it was reached. */
interface Outcome {
  readonly title: string
  readonly goal: string
  readonly outcome: 'reached' | 'missed' | 'not measured'
  readonly figures: string
}

export function outcomesOf(summary: Summary): Outcome[] {
  return goals.map(({ title, goal, reached }) => {
    const verdict = reached(summary)
    const outcome = !verdict ? 'not measured' : verdict.reached ? 'reached' : 'missed'
    return { title, goal, outcome, figures: verdict?.figures ?? '' }
  })
}

export function goalTable(summary: Summary): string {
  const table = new Table({ head: ['', 'goal', '', 'measured'], style: { head: [], border: [] } })
  for (const { title, goal, outcome, figures } of outcomesOf(summary)) {
    table.push([title, goal, outcome, figures])
  }
  return table.toString()
}

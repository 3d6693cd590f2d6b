import type pg from 'pg'
import type { Bench, Case, Figures, Size } from '../case.ts'
import type { Contender, Push, Watcher } from '../contender.ts'
import { best, LOCKSTEP, POSTGRES_PEERS, REDIS_PEERS, standard } from '../entrants.ts'
import { Check } from '../measure/check.ts'
import { costOf } from '../measure/cost.ts'

const BULK = 1_000

export async function fill(
  contender: Pick<Contender, 'enqueue'>,
  jobs: number,
  pushOf: (index: number) => Push,
): Promise<void> {
  for (let from = 0; from < jobs; from += BULK) {
    const length = Math.min(BULK, jobs - from)
    await contender.enqueue(Array.from({ length }, (_, index) => pushOf(from + index)))
  }
}

/** Does what autovacuum would have done meanwhile: no contender has to plan for tables without statistics. */
export async function settle(pool: pg.Pool): Promise<void> {
  await pool.query('VACUUM (ANALYZE)')
  await pool.query('CHECKPOINT')
}

/**
 * Measures from the worker's start to the end of the last job. The cost counts until everything is stored. By default
 * `handler` only counts.
 */
export async function processAll(
  bench: Bench,
  pushOf: (index: number) => Push,
  handler = (check: Watcher) => check,
): Promise<Figures> {
  const { contender, setting, size, pool, meters } = bench
  await fill(contender, size.jobs, pushOf)
  await settle(pool)
  const check = new Check(setting.ordering, size.jobs)
  const before = await meters.read()
  const startedAt = performance.now()
  await contender.work(handler(check))
  await check.finish.within(size.patience * 1000)
  const { done, outOfOrder, repeated } = check
  const seconds = (performance.now() - startedAt) / 1000
  await contender.close()
  if (repeated > 0) throw new Error(`${repeated} jobs were done twice`)
  const cost = costOf(before, await meters.read(), done)
  return { value: done / seconds, cost, outOfOrder, undone: Math.max(0, size.jobs - done) }
}

const FULL: Size = { jobs: 100_000, patience: 20 }
const QUICK: Size = { jobs: 60_000, patience: 5 }
const ORDERED_PEERS = ['graphile-worker', 'pg-boss'] as const

const plain = [5, 10].map(
  (concurrency): Case => ({
    name: `work-${concurrency}`,
    title: `processing, concurrency ${concurrency}`,
    unit: 'jobs/s',
    concurrency,
    entrants: [
      ...standard([LOCKSTEP, ...POSTGRES_PEERS, ...REDIS_PEERS]),
      ...best([LOCKSTEP, ...POSTGRES_PEERS, ...REDIS_PEERS]),
    ],
    full: FULL,
    quick: QUICK,
    inQuick: concurrency === 10,
    run: (bench) => processAll(bench, (seq) => ({ key: 'job', seq })),
  }),
)

const ARRANGEMENTS = { interleaved: 'interleaved', row: 'in a row' } as const
type Arrangement = keyof typeof ARRANGEMENTS

function keyed(keys: number, arrangement: Arrangement): Case {
  return {
    name: `order-${keys}-${arrangement}`,
    title: `${keys.toLocaleString('en')} keys in strict order, enqueued ${ARRANGEMENTS[arrangement]}`,
    unit: 'jobs/s',
    ordering: 'per key',
    entrants: [...best([LOCKSTEP, ...ORDERED_PEERS]), ...standard([LOCKSTEP, ...ORDERED_PEERS])],
    full: FULL,
    quick: QUICK,
    inQuick: arrangement === 'interleaved',
    quickConfiguration: 'best',
    run: (bench) => {
      const perKey = bench.size.jobs / keys
      return processAll(bench, (index) =>
        arrangement === 'interleaved'
          ? { key: `key-${index % keys}`, seq: Math.floor(index / keys) }
          : { key: `key-${Math.floor(index / perKey)}`, seq: index % perKey },
      )
    },
  }
}

const merge: Case = {
  name: 'merge-20',
  title: '20 payloads merging per id',
  unit: 'jobs/s',
  ordering: 'per key',
  entrants: [...standard([LOCKSTEP]), ...best([LOCKSTEP])],
  full: FULL,
  quick: QUICK,
  run: (bench) => {
    const ids = bench.size.jobs / 20
    return processAll(bench, (index) => ({ key: `id-${index % ids}`, seq: Math.floor(index / ids) }))
  },
}

export const workCases: readonly Case[] = [
  ...plain,
  ...[10, 1_000, 10_000].flatMap((keys) => [keyed(keys, 'interleaved'), keyed(keys, 'row')]),
  merge,
]

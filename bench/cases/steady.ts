import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Bench, Case, Figures } from '../case.ts'
import { best, LOCKSTEP, POSTGRES_PEERS } from '../entrants.ts'
import { Check } from '../measure/check.ts'
import { costOf } from '../measure/cost.ts'
import { percentile } from '../measure/percentile.ts'

const RATE = 2_000
/** ms between two calls that enqueue. */
const BEAT = 10

/** Pushes `size.jobs` at that rate. The result is the rate at which they were done, and the ms from push to start. */
async function steady({ contender, size, meters, setting }: Bench, holdsSnapshot: boolean): Promise<Figures> {
  const pushedAt: number[] = []
  const latencies: number[] = []
  const check = new Check('any', size.jobs, ({ seq }) => latencies.push(performance.now() - pushedAt[seq]!))
  const holder = holdsSnapshot ? await holdSnapshot(setting.connectionString) : undefined
  await contender.work(check)
  const before = await meters.read()
  const startedAt = performance.now()
  const patient = () => performance.now() - startedAt < (size.jobs / RATE + size.patience) * 1000
  let calls = Promise.resolve()
  while (pushedAt.length < size.jobs) {
    const due = Math.min(size.jobs, Math.floor(((performance.now() - startedAt) * RATE) / 1000))
    const pushes = Array.from({ length: due - pushedAt.length }, () => {
      pushedAt.push(performance.now())
      return { key: 'job', seq: pushedAt.length - 1 }
    })
    // One call after the other, as in a producer, until patience ends for a contender that can't keep up.
    if (pushes.length > 0) {
      calls = calls.then(async () => {
        if (patient()) await contender.enqueue(pushes)
      })
    }
    await sleep(BEAT)
  }
  await calls
  await check.finish.within(size.patience * 1000)
  const seconds = (performance.now() - startedAt) / 1000
  const cost = costOf(before, await meters.read(), check.done)
  await holder?.end()
  return {
    value: check.done / seconds,
    p95: percentile(latencies, 95),
    p99: percentile(latencies, 99),
    undone: size.jobs - check.done,
    cost,
  }
}

async function holdSnapshot(connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await client.query('SELECT count(*) FROM pg_class')
  return client
}

export const steadyCases: readonly Case[] = [false, true].map((held) => ({
  name: held ? 'steady-held' : 'steady',
  title: held ? '2,000 jobs/s with a snapshot held open' : '2,000 jobs/s',
  unit: 'jobs/s',
  entrants: best([LOCKSTEP, ...POSTGRES_PEERS]),
  full: { jobs: 60 * RATE, patience: 20 },
  quick: { jobs: 5 * RATE, patience: 5 },
  run: (bench) => steady(bench, held),
}))

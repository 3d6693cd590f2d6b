import { randomBytes } from 'node:crypto'
import type { Bench, Case, Figures } from '../case.ts'
import { LOCKSTEP, standard } from '../entrants.ts'
import { Check } from '../measure/check.ts'
import { costOf } from '../measure/cost.ts'
import { fill } from './work.ts'

/** Bytes of a payload's padding, and how many jobs of that size are enqueued and processed. */
const SIZES = [
  [0, 60_000],
  [100, 60_000],
  [300, 60_000],
  [500, 60_000],
  [1_000, 40_000],
  [2_000, 30_000],
  [10_000, 10_000],
  [100_000, 1_000],
] as const

/** Random, so that nothing can be compressed; a few pieces are enough, since the server does not compare them. */
function paddings(bytes: number): string[] {
  return Array.from({ length: 64 }, () =>
    randomBytes(Math.ceil((bytes * 3) / 4))
      .toString('base64')
      .slice(0, bytes),
  )
}

/** Enqueues all jobs in bulk, and then processes them; the rate and the cost are those of both together. */
async function inAndOut({ contender, size, meters }: Bench, bytes: number): Promise<Figures> {
  const padding = paddings(bytes)
  const check = new Check('any', size.jobs)
  const before = await meters.read()
  const startedAt = performance.now()
  await fill(contender, size.jobs, (seq) => ({ key: 'job', seq, padding: padding[seq % padding.length] }))
  await contender.work(check)
  await check.finish.within(size.patience * 1000)
  const seconds = (performance.now() - startedAt) / 1000
  await contender.close()
  const cost = costOf(before, await meters.read(), check.done)
  return { value: check.done / seconds, cost, undone: Math.max(0, size.jobs - check.done) }
}

export const sizeCases: readonly Case[] = SIZES.map(([bytes, jobs]) => ({
  name: `size-${bytes}`,
  title: `payloads of ${bytes.toLocaleString('en')} bytes more, enqueued and processed`,
  unit: 'jobs/s',
  entrants: standard([LOCKSTEP]),
  full: { jobs, patience: 60 },
  quick: { jobs: jobs / 10, patience: 20 },
  inQuick: false,
  run: (bench) => inAndOut(bench, bytes),
}))

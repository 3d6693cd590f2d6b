import { setTimeout as sleep } from 'node:timers/promises'
import { defineQueue, Lockstep } from 'pg-lockstep'
import { type Bench, type Case, type Figures, SETTLE } from '../case.ts'
import type { Update } from '../contender.ts'
import { LOCKSTEP, standard } from '../entrants.ts'
import { fairnessOf } from '../measure/fairness.ts'
import { type SchedulerName, startWorkerProcess } from '../worker-process.ts'

/** Scenario S1 of faqueue: each tenant pushes a bulk of so many jobs, one a second after the other. */
const BULKS = [300, 20, 500, 30, 200, 20]
const JOBS = BULKS.reduce((sum, jobs) => sum + jobs, 0)
/** ms */
const EVERY = 1_000
/** ms that a job takes, at random. */
const HANDLER = [200, 250] as const
const SLOTS = 12

const RULES = {
  window: 86_400,
  rules: [
    { over: 20, per: 86_400, lane: 1 },
    { over: 100, per: 86_400, lane: 2 },
  ],
}

interface Variant {
  readonly name: string
  readonly title: string
  readonly scheduler: SchedulerName
  readonly rules?: typeof RULES
}

const VARIANTS: readonly Variant[] = [
  { name: 'lag', title: 'plain order', scheduler: 'lag' },
  { name: 'rules', title: 'rules, lanes by 6/3/1', scheduler: 'weighted', rules: RULES },
  { name: 'fair', title: 'scheduler fair', scheduler: 'fair' },
]

/** s of deviation among the mean latencies of the tenants' heads. */
async function serve(
  { setting, size }: Bench,
  { scheduler, rules }: Variant,
  processes: number,
): Promise<Figures> {
  const tenants = BULKS.map((jobs) => ({ jobs, pushedAt: 0, starts: [] as number[] }))
  const share = { ...setting, concurrency: setting.concurrency / processes }
  const onStart = (tenant: number, at: number) => tenants[tenant]!.starts.push(at)
  const workers = await Promise.all(
    Array.from({ length: processes }, () =>
      startWorkerProcess(share, { handler: HANDLER, scheduler, fairness: rules, onStart }),
    ),
  )
  await sleep(SETTLE)
  const lockstep = new Lockstep({ connectionString: setting.connectionString })
  const queue = defineQueue<Update>('updates', {})
  for (const [seq, tenant] of tenants.entries()) {
    tenant.pushedAt = performance.timeOrigin + performance.now()
    await lockstep.enqueue(queue, bulkOf(`tenant ${seq}`, seq, tenant.jobs))
    await sleep(EVERY - (performance.timeOrigin + performance.now() - tenant.pushedAt))
  }
  const started = () => tenants.reduce((sum, { starts }) => sum + starts.length, 0)
  const until = performance.now() + size.patience * 1000
  while (started() < JOBS && performance.now() < until) await sleep(20)
  await Promise.all(workers.map((worker) => worker.stop()))
  await lockstep.close()
  const fairness = fairnessOf(tenants)
  return { value: fairness.headMean * 1000, undone: JOBS - started(), fairness }
}

function bulkOf(tenant: string, seq: number, jobs: number) {
  return Array.from({ length: jobs }, (_, nth) => ({
    id: `${tenant}:${nth}`,
    payload: { key: tenant, seq },
    tenant,
  }))
}

export const fairnessCases: readonly Case[] = VARIANTS.flatMap((variant) =>
  [1, 3].map(
    (processes): Case => ({
      name: `fairness-${variant.name}-${processes}`,
      title: `tenants’ heads, ${variant.title}, ${processes} ${processes === 1 ? 'process' : 'processes'}`,
      unit: 'ms',
      concurrency: SLOTS,
      // So that three processes have as many each.
      tuning: { shards: 24 },
      entrants: standard([LOCKSTEP]),
      full: { jobs: JOBS, patience: 60 },
      quick: { jobs: JOBS, patience: 60 },
      inQuick: false,
      run: (bench) => serve(bench, variant, processes),
    }),
  ),
)

import { defineQueue, Lockstep } from 'pg-lockstep'
import type { Bench, Case, Figures } from '../case.ts'
import { LOCKSTEP, standard } from '../entrants.ts'
import { costOf } from '../measure/cost.ts'
import { percentilesOf } from '../measure/percentile.ts'
import { settle } from './work.ts'

/** ms that a caller waits at most. */
const WAIT = 30_000

const QUEUE = defineQueue<number>('sums', { keepResult: 60, perform: (batch) => batch.size })

/** ms from the call of a push until its caller has what the handler returned. */
async function ask({ setting, size, pool, meters }: Bench, callers: number): Promise<Figures> {
  const lockstep = new Lockstep({ connectionString: setting.connectionString })
  const worker = lockstep.createWorker({ queues: [QUEUE], slots: setting.concurrency })
  await worker.start()
  await settle(pool)
  const times: number[] = []
  let asked = 0
  const call = async () => {
    while (asked < size.jobs) {
      asked += 1
      const begun = performance.now()
      const { id, round } = await lockstep.enqueueForResult(QUEUE, { id: asked, payload: asked })
      const { state } = await lockstep.result(QUEUE, id, round, { wait: WAIT })
      if (state !== 'completed') throw new Error(`a job is ${state}`)
      times.push(performance.now() - begun)
    }
  }
  const before = await meters.read()
  await Promise.all(Array.from({ length: callers }, call))
  const cost = costOf(before, await meters.read(), times.length)
  await worker.stop()
  await lockstep.close()
  return { ...percentilesOf(times), cost }
}

export const resultCases: readonly Case[] = [1, 32].map((callers) => ({
  name: `results-${callers}`,
  title: `push and wait for the result, ${callers} at once`,
  unit: 'ms',
  entrants: standard([LOCKSTEP]),
  inQuick: false,
  full: { jobs: callers === 1 ? 500 : 10_000, patience: 60 },
  quick: { jobs: callers === 1 ? 100 : 1_000, patience: 60 },
  run: (bench) => ask(bench, callers),
}))

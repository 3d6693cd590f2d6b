import { setTimeout as sleep } from 'node:timers/promises'
import { defineQueue, type NewJob, type Queue } from '../src/index.ts'
import type { Bench, Case } from './measure.ts'

const BULK = 50_000
const FEW = 30_000
const SINGLE = 2_000
const PICK_UPS = 300

const plain = defineQueue<number>('plain', { shards: 10 })

function newJobs(count: number): NewJob<number>[] {
  return Array.from({ length: count }, (_, index) => ({ id: `job-${index}`, payload: index }))
}

async function timed(jobs: number, work: () => Promise<unknown>): Promise<{ jobs: number; seconds: number }> {
  const startedAt = performance.now()
  await work()
  return { jobs, seconds: (performance.now() - startedAt) / 1000 }
}

async function enqueueBulk({ lockstep }: Bench): Promise<{ jobs: number; seconds: number }> {
  const jobs = newJobs(BULK)
  return timed(BULK, async () => {
    for (let from = 0; from < BULK; from += 1_000)
      await lockstep.enqueue(plain, jobs.slice(from, from + 1_000))
  })
}

async function enqueueSingle(
  { lockstep }: Bench,
  producers: number,
): Promise<{ jobs: number; seconds: number }> {
  const jobs = newJobs(SINGLE)
  const producer = async () => {
    for (let job = jobs.pop(); job; job = jobs.pop()) await lockstep.enqueue(plain, job)
  }
  return timed(SINGLE, () => Promise.all(Array.from({ length: producers }, producer)))
}

async function workOff({ lockstep }: Bench, jobs: number, batchSize: number, slots: number) {
  await lockstep.enqueue(plain, newJobs(jobs))
  let done = 0
  let finish!: () => void
  const finished = new Promise<void>((resolve) => {
    finish = resolve
  })
  const queue: Queue<number> = defineQueue('plain', {
    shards: 10,
    batchSize,
    perform(batch) {
      done += batch.size
      if (done === jobs) finish()
    },
  })
  const worker = lockstep.createWorker({ queues: [queue], slots })
  await worker.start()
  const result = await timed(jobs, () => finished)
  await worker.stop()
  return result
}

/** From the producer's commit to the handler's start. */
async function pickUp({ lockstep }: Bench) {
  const started = new Map<string, (at: number) => void>()
  const queue = defineQueue<number>('plain', {
    shards: 10,
    perform: (batch) => {
      for (const id of batch.keys()) started.get(id)?.(performance.now())
    },
  })
  const worker = lockstep.createWorker({ queues: [queue] })
  await worker.start()
  await sleep(500)
  const latencies: number[] = []
  for (const job of newJobs(PICK_UPS)) {
    const startedAt = new Promise<number>((resolve) => started.set(String(job.id), resolve))
    await lockstep.enqueue(queue, job)
    const committedAt = performance.now()
    latencies.push((await startedAt) - committedAt)
    await sleep(20)
  }
  await worker.stop()
  return { latencies }
}

export const cases: readonly Case[] = [
  { name: 'enqueue-bulk', run: enqueueBulk },
  { name: 'enqueue-1', run: (bench) => enqueueSingle(bench, 1) },
  { name: 'enqueue-10', run: (bench) => enqueueSingle(bench, 10) },
  { name: 'work-default', run: (bench) => workOff(bench, FEW, 1, 10) },
  { name: 'work-batch-100', run: (bench) => workOff(bench, BULK, 100, 10) },
  { name: 'pick-up', run: pickUp },
]

import { defineQueue, Lockstep, type Scheduler, type Worker } from 'pg-lockstep'
import type { Contender, Push, Setting, Update } from '../contender.ts'
import { perform } from './lockstep.ts'

/** Several queues under one worker: the key of an update names its queue. */
export function openNeighbours(
  { connectionString, concurrency }: Setting,
  names: readonly string[],
  scheduler?: Scheduler,
): Contender {
  const lockstep = new Lockstep({ connectionString })
  let worker: Worker | undefined

  const enqueueTo = (name: string, pushes: readonly Push[]) =>
    lockstep.enqueue(
      defineQueue<Update>(name),
      pushes.map(({ key, seq }) => ({ id: `job:${seq}`, payload: { key, seq }, score: seq })),
    )

  return {
    told: `slots ${concurrency}, ${names.length} queues`,
    async setUp() {
      await lockstep.migrate()
    },
    enqueue(pushes) {
      const ofQueue = (name: string) => pushes.filter(({ key }) => key === name)
      const asked = names.filter((name) => ofQueue(name).length > 0)
      return Promise.all(asked.map((name) => enqueueTo(name, ofQueue(name))))
    },
    async work(watcher) {
      const queues = names.map((name) =>
        defineQueue<Update>(name, { perform: (batch) => perform(batch, watcher) }),
      )
      worker = lockstep.createWorker({ queues, slots: concurrency, scheduler })
      await worker.start()
    },
    async close() {
      await worker?.stop()
      await lockstep.close()
    },
  }
}

import pg from 'pg'
import { defineQueue, Lockstep } from '../../../src/index.ts'
import type { WorkerProcessOptions } from '../../support/worker-process.ts'

function block(): void {
  const until = performance.now() + 60_000
  while (performance.now() < until);
}

/** A process whose lease is renewed by its main thread, which a handler blocks for much longer than the lease. */
process.once('message', async ({ connectionString, queue }: WorkerProcessOptions) => {
  const createClient = (options: pg.ClientConfig) => new pg.Client({ ...options, connectionString })
  const lockstep = new Lockstep({ connectionString, createClient })
  const blocking = defineQueue(queue.name, { perform: block })
  await lockstep.createWorker({ queues: [blocking], lease: 4_000, killOnLeaseEnd: true }).start()
  process.send!({ event: 'ready', detail: { processId: 0 } })
})

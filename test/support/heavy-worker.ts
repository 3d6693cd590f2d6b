import { defineQueue, Lockstep } from '../../src/index.ts'
import type { WorkerProcessMessage, WorkerProcessOptions } from './worker-process.ts'

/** What a handler of this worker got for an id. */
export interface Performed {
  readonly id: string
  readonly payloads: number
  readonly characters: number
  /** The first characters of the first payload. */
  readonly first: string
}

process.once('message', (options) => void work(options as WorkerProcessOptions))
process.on('disconnect', () => process.exit())

/** A worker process that keeps nothing of what it performs, so that only the library needs memory. */
async function work({ connectionString, queue: { name, ...policy }, worker: options }: WorkerProcessOptions) {
  const queue = defineQueue(name, {
    ...(policy as object),
    retryIn: () => 0.05,
    perform: (batch) => {
      const detail = [...batch].map(([id, payloads]): Performed => {
        const characters = payloads.reduce<number>((sum, payload) => sum + String(payload).length, 0)
        return { id, payloads: payloads.length, characters, first: String(payloads[0]).slice(0, 8) }
      })
      tell({ event: 'performed', detail })
    },
  })
  const worker = new Lockstep({ connectionString }).createWorker({ queues: [queue], ...options })
  for (const event of ['failed', 'rescued'] as const)
    worker.on(event, ({ id }: { id: string }) => tell({ event, detail: { id } }))
  process.on('message', (message) => {
    if (message === 'stop') void worker.stop().then(() => process.disconnect())
  })
  await worker.start()
  tell({ event: 'ready', detail: { processId: worker.processId } })
}

function tell(message: WorkerProcessMessage): void {
  if (process.connected) process.send!(message)
}

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Setting } from './contender.ts'
import { type Tuning, tuningOf } from './contenders/lockstep.ts'

const WORKER = fileURLToPath(new URL('worker.js', import.meta.url))

/** What a worker process says of itself, several times a second. */
export interface Report {
  readonly done: number
  /** Bytes, at most so far. */
  readonly rss: number
}

interface Order {
  readonly connectionString: string
  readonly slots: number
  readonly tuning: Tuning
  /** ms that a handler takes. */
  readonly handler: number
}

export interface WorkerProcess {
  readonly report: Report
  stop(): Promise<void>
}

/** Starts a process that does nothing but work; resolves when its worker is ready. */
export async function startWorkerProcess(
  setting: Setting,
  { handler }: Pick<Order, 'handler'>,
): Promise<WorkerProcess> {
  const child: ChildProcess = fork(WORKER, [], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  let report: Report = { done: 0, rss: 0 }
  const ready = once(child, 'message')
  const exited = once(child, 'exit')
  const { connectionString, concurrency: slots } = setting
  child.send({ connectionString, slots, tuning: tuningOf(setting), handler } satisfies Order)
  await Promise.race([ready, exited.then(() => Promise.reject(new Error('the worker process ended')))])
  child.on('message', (message) => {
    report = message as Report
  })
  return {
    get report() {
      return report
    },
    async stop() {
      child.send('stop')
      await exited
    },
  }
}

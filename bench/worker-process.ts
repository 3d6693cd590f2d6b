import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Setting, Update, Watcher } from './contender.ts'
import { openLockstep } from './contenders/lockstep.ts'

/** What a worker process says of itself, several times a second. */
export interface Report {
  readonly done: number
  /** Bytes, at most so far. */
  readonly rss: number
}

interface Order {
  readonly setting: Setting
  /** ms that a handler takes. */
  readonly handler: number
}

export interface WorkerProcess {
  readonly report: Report
  stop(): Promise<void>
}

const REPORT_EVERY = 20

/** Starts a process that does nothing but work; resolves when its worker is ready. */
export async function startWorkerProcess(
  setting: Setting,
  { handler }: Pick<Order, 'handler'>,
): Promise<WorkerProcess> {
  const child: ChildProcess = fork(fileURLToPath(import.meta.url), [], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  let report: Report = { done: 0, rss: 0 }
  const ready = once(child, 'message')
  const exited = once(child, 'exit')
  child.send({ setting, handler } satisfies Order)
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

async function main(): Promise<void> {
  process.once('disconnect', () => process.exit())
  const [{ setting, handler }] = (await once(process, 'message')) as [Order]
  const contender = openLockstep(setting)
  let done = 0
  const watcher: Watcher = {
    starts: async () => {
      if (handler > 0) await sleep(handler)
    },
    ends: (updates: readonly Update[]) => {
      done += updates.length
    },
  }
  await contender.work(watcher)
  const report = () => process.send!({ done, rss: process.resourceUsage().maxRSS * 1024 } satisfies Report)
  report()
  setInterval(report, REPORT_EVERY)
  await once(process, 'message')
  await contender.close()
  process.exit()
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main()

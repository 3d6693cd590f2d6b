import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Fairness } from 'pg-lockstep'
import { LITTLE_GROWTH, SMALL_SEMI_SPACE } from '../src/cli/work/garbage.ts'
import type { Setting, Tuning } from './contender.ts'
import { tuningOf } from './contenders/lockstep.ts'
import { type Entrant, LOCKSTEP, type Name } from './entrants.ts'

const OURS = 'worker.js'
const PEERS = 'peer-worker.ts'

/** The start of a handler: the `seq` of its update, and ms since 1970. */
type Start = readonly [seq: number, at: number]

/** What a worker process reports of itself several times a second. */
export interface Report {
  readonly done: number
  /** The most bytes so far. */
  readonly rss: number
  /** Since the last report. */
  readonly starts: readonly Start[]
}

export type SchedulerName = 'fair' | 'lag' | 'weighted'

interface Order {
  readonly connectionString: string
  readonly slots: number
  readonly tuning: Tuning
  /** ms that a handler takes; of two, a random time from one to the other. */
  readonly handler: number | readonly [shortest: number, longest: number]
  /** Default: the workers' own. `weighted`: lanes 0 to 2 by 6, 3 and 1. */
  readonly scheduler?: SchedulerName
  readonly fairness?: Fairness | undefined
  readonly tellsStarts: boolean
}

export interface PeerOrder {
  readonly name: Name
  readonly setting: Setting
}

interface Running {
  stop(): Promise<void>
}

export interface WorkerProcess extends Running {
  readonly report: Report
}

/** Starts a process that only works; resolves when its worker is ready. `onStart` receives starts a little later. */
export async function startWorkerProcess(
  setting: Setting,
  {
    handler,
    scheduler,
    fairness,
    onStart,
  }: Pick<Order, 'handler' | 'scheduler' | 'fairness'> & { onStart?: (...start: Start) => void },
): Promise<WorkerProcess> {
  let report: Report = { done: 0, rss: 0, starts: [] }
  const { connectionString, concurrency: slots } = setting
  const tellsStarts = onStart !== undefined
  const tuning = tuningOf(setting)
  const order: Order = { connectionString, slots, tuning, handler, scheduler, fairness, tellsStarts }
  const { stop } = await start(OURS, order, (message) => {
    report = message as Report
    for (const start of report.starts) onStart!(...start)
  })
  return {
    get report() {
      return report
    },
    stop,
  }
}

/** Starts a process of any contender, with nothing to do. */
export async function startIdleProcess({ name }: Entrant, setting: Setting): Promise<Running> {
  if (name === LOCKSTEP) return startWorkerProcess(setting, { handler: 0 })
  return start(PEERS, { name, setting } satisfies PeerOrder, () => {})
}

/** Ours as `lockstep work` starts them. The first message of the process says that it is ready. */
async function start(script: string, order: object, onMessage: (message: unknown) => void): Promise<Running> {
  const child: ChildProcess = fork(fileURLToPath(new URL(script, import.meta.url)), [], {
    execArgv: script === OURS ? [...process.execArgv, SMALL_SEMI_SPACE, LITTLE_GROWTH] : process.execArgv,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const ready = once(child, 'message')
  const exited = once(child, 'exit')
  child.on('message', onMessage)
  child.send(order)
  await Promise.race([ready, exited.then(() => Promise.reject(new Error('the worker process ended')))])
  return {
    async stop() {
      child.send('stop')
      await exited
    },
  }
}

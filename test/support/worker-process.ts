import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import {
  type Batch,
  defineQueue,
  type Limits,
  Lockstep,
  type TransactionalContext,
  type WorkerEvents,
} from '../../src/index.ts'
import { Diary } from './diary.ts'

/** The options of a child process. All of them survive JSON. */
export interface WorkerProcessOptions {
  readonly connectionString: string
  /** The file in which every handler run is written down. */
  readonly log: string
  readonly queue: {
    readonly name: string
    readonly shards?: number
    readonly batchSize?: number
    readonly maxCrashes?: number
    readonly maxRetryCount?: number
    readonly maxBytes?: number
    readonly transactional?: boolean
    readonly limits?: Limits
  }
  readonly worker?: {
    slots?: number
    lease?: number
    rebalanceInterval?: number
    poll?: number
    killOnLeaseEnd?: boolean
  }
  /** Most ms that a handler takes. */
  readonly work?: number
  /** Ids whose handlers don't end before the parent says `open`. */
  readonly gated?: readonly string[]
  /** The id whose handler kills its process. */
  readonly poison?: string
  /** Writes every payload to the table `applied`, in the handler's transaction. */
  readonly apply?: boolean
}

/** What a child tells its parent. */
export type WorkerProcessMessage =
  | { readonly event: 'ready'; readonly detail: { processId: number } }
  | { readonly event: keyof WorkerEvents | 'performed'; readonly detail: unknown }

const OBSERVED = [
  'started',
  'completed',
  'failed',
  'died',
  'rescued',
  'refused',
  'leaseLost',
  'rebalanced',
  'outdated',
] as const
const RETRY_IN = 0.05

process.once('message', (options) => void work(options as WorkerProcessOptions))

async function work(options: WorkerProcessOptions): Promise<void> {
  const { connectionString } = options
  const gate = new Promise<void>((open) => process.on('message', (message) => message === 'open' && open()))
  const diary = new Diary(String(process.pid), options.log)
  const perform = handler(options, diary, gate)
  const { transactional, ...rest } = options.queue
  const policy = { ...rest, retryIn: () => RETRY_IN, perform }
  const queue = transactional
    ? defineQueue(rest.name, { ...omitName(policy), transactional: true })
    : defineQueue(rest.name, omitName(policy) as object)
  const lockstep = new Lockstep({ connectionString })
  const worker = lockstep.createWorker({ queues: [queue], ...options.worker })
  diary.hear(worker)
  for (const event of OBSERVED) worker.on(event, (detail: unknown) => tell({ event, detail }))
  process.on('message', (message) => {
    if (message === 'stop') void worker.stop().then(() => process.disconnect())
  })
  // The worker stops by itself, and the process ends after it.
  worker.once('outdated', () => void worker.stop().then(() => process.disconnect()))
  await worker.start()
  tell({ event: 'ready', detail: { processId: worker.processId } })
}

function omitName<T extends { name: string }>({ name: _, ...rest }: T): Omit<T, 'name'> {
  return rest
}

/** If the parent has died, no one receives anything: the child ends too. */
process.on('disconnect', () => process.exit())

function tell(message: WorkerProcessMessage): void {
  if (process.connected) process.send!(message)
}

function handler(options: WorkerProcessOptions, diary: Diary, gate: Promise<void>) {
  const { work: longest = 0, gated = [], poison, apply } = options
  return diary.around(options.queue.name, async (batch: Batch<unknown>, { tx }: TransactionalContext) => {
    if (poison !== undefined && batch.has(poison)) process.kill(process.pid, 'SIGKILL')
    if (gated.some((id) => batch.has(id))) await gate
    if (longest > 0) await sleep(Math.random() * longest)
    if (apply) await applyAll(tx, batch)
  })
}

async function applyAll(tx: pg.ClientBase, batch: Batch<unknown>): Promise<void> {
  const rows = [...batch].flatMap(([id, payloads]) => payloads.map((payload) => [id, payload] as const))
  await tx.query('INSERT INTO applied (id, payload) SELECT * FROM unnest($1::text[], $2::jsonb[])', [
    rows.map(([id]) => id),
    rows.map(([, payload]) => JSON.stringify(payload)),
  ])
}

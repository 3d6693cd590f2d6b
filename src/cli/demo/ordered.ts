import type { ClientBase } from 'pg'
import {
  type Batch,
  defineQueue,
  Lockstep,
  type Logger,
  type Queue,
  type TransactionalContext,
} from '../../index.ts'
import { applyUpdates } from './apply.ts'
import type { Duty } from './duty.ts'
import type { Update } from './feed.ts'
import { sharedClock, write } from './logbook.ts'
import { millis, QUEUE_SCHEMA } from './shop.ts'

/** ms until the orders of a killed process are free; short, so that the demo can show it. */
export const LEASE = 3_000
export const SLOTS = 5

const QUEUE = 'orders'
const POLICY = { shards: 24, batchSize: 5, retryIn: () => 1 }

const logger: Logger = {
  debug() {},
  info() {},
  warn: (fields, message) => warn(fields, message),
  error: (fields, message) => warn(fields, message),
}

function warn(fields: object, message: string): void {
  const { error } = fields as { error?: string }
  write({ kind: 'warning', message: error === undefined ? message : `${message}: ${error}` })
}

export function openLockstep(connectionString: string): Lockstep {
  return new Lockstep({ connectionString, schema: QUEUE_SCHEMA, logger })
}

/** The queue as producers know it. */
export const orders: Queue<Update> = defineQueue<Update>(QUEUE, POLICY)

/** Serves the queue until told to stop. */
export async function serveOrdered({ name, connectionString }: Duty, stop: Promise<unknown>): Promise<void> {
  const lockstep = openLockstep(connectionString)
  const queue = defineQueue<Update>(QUEUE, { ...POLICY, transactional: true, perform: performer(name) })
  const worker = lockstep.createWorker({ queues: [queue], slots: SLOTS, lease: LEASE, killOnLeaseEnd: true })
  await worker.start()
  write({ kind: 'ready' })
  await stop
  await worker.stop()
  await lockstep.close()
}

function performer(name: string) {
  let runs = 0
  return async (batch: Batch<Update>, context: TransactionalContext) => {
    runs += 1
    const run = `${name}/${runs}`
    write({ kind: 'begin', run, orders: [...batch.keys()], at: sharedClock() })
    try {
      await perform(run, batch, context)
    } finally {
      write({ kind: 'end', run, at: sharedClock() })
    }
  }
}

async function perform(run: string, batch: Batch<Update>, { tx, jobs }: TransactionalContext): Promise<void> {
  const { takenAt, now } = await readClaims(tx, [...batch.keys()])
  for (const { performIn, crashes } of jobs.values())
    write({ kind: 'pickUp', wait: now - performIn.getTime(), rescued: crashes > 0 })
  const taken = [...batch].map(([order, updates]) => ({ order, updates, takenAt: takenAt.get(order)! }))
  await applyUpdates(tx, run, taken)
}

/** When the queue took the orders, by its own word. It must hand over all that was committed before. */
async function readClaims(tx: ClientBase, ids: readonly string[]) {
  const { rows } = await tx.query(
    `SELECT id, ${millis('claimed_at')} AS taken_at, ${millis('clock_timestamp()')} AS now
     FROM ${QUEUE_SCHEMA}.working WHERE queue = $1 AND id = ANY ($2)`,
    [QUEUE, ids],
  )
  if (rows.length < ids.length) throw new Error('the claim was lost before the handler began')
  return { takenAt: new Map<string, number>(rows.map((row) => [row.id, row.taken_at])), now: rows[0].now }
}

import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { Lockstep, type Logger, type Worker, type WorkerEvents } from 'pg-lockstep'

/** What every feature uses: the database, and what can be awaited. */
export const connectionString = process.env.DATABASE_URL!

/** ms: what hangs has failed. */
const PATIENCE = 15_000

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} }

export async function open(): Promise<Lockstep> {
  const lockstep = new Lockstep({ connectionString, logger: silent })
  await lockstep.migrate()
  return lockstep
}

export function openPool(): pg.Pool {
  return new pg.Pool({ connectionString })
}

/** Ask for it before the event can happen. */
export function next<Event extends keyof WorkerEvents>(
  worker: Worker,
  event: Event,
): Promise<WorkerEvents[Event]> {
  return within(once(worker, event)) as Promise<WorkerEvents[Event]>
}

/** @throws Error if it takes too long */
export async function within<T>(work: Promise<T>): Promise<T> {
  const ended = new AbortController()
  const late = sleep(PATIENCE, undefined, { signal: ended.signal }).then(
    () => Promise.reject(new Error(`took more than ${PATIENCE} ms`)),
    () => undefined as never,
  )
  try {
    return await Promise.race([work, late])
  } finally {
    ended.abort()
  }
}

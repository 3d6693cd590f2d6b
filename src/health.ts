/** Whether something lives, is ready, and has started; and if not, why. */
export interface Verdicts {
  /** Its event loop runs. */
  readonly live: boolean
  /** It takes jobs. */
  readonly ready: boolean
  /** It has started; stays true while it stops. */
  readonly started: boolean
  /** Why it isn't live or ready; empty if it is both. */
  readonly reasons: readonly string[]
}

/** What the health of a worker is judged by. */
export interface Vitals {
  /** ms: the longest delay of its event loop in the last five to ten seconds. */
  readonly eventLoopDelay: number
  /** ms until its lease ends unless it is renewed; 0 if there is none. A quarter of a lease passes between renewals. */
  readonly leaseLeft: number
  /** New work may start: the lease runs, and is not about to end. */
  readonly leaseValid: boolean
  /** The database answered when the worker last compared processes and shards. */
  readonly database: boolean
  /** Its wake-up connection hears. Without it, the worker polls. */
  readonly wakeUps: boolean
  /** How many batches are in work. */
  readonly working: number
}

export type WorkerState = 'new' | 'starting' | 'running' | 'quiet' | 'stopping' | 'stopped'

/** The health of a worker, as of now. */
export interface Health extends Verdicts, Vitals {
  readonly state: WorkerState
  /** Its number in the table of processes; 0 before it has one. */
  readonly processId: number
}

/** ms. A probe is not answered while the event loop is blocked; this is for the one that comes right afterwards. */
const LONGEST_DELAY = 10_000

const IN_STATE: Readonly<Record<WorkerState, string | undefined>> = {
  new: 'it was not started',
  starting: 'it is starting',
  running: undefined,
  quiet: 'it is quiet, and takes nothing new',
  stopping: 'it is stopping',
  stopped: 'it has stopped',
}

/** A worker without a wake-up connection is ready, since it polls. One that stops is live. */
export function judge(
  state: WorkerState,
  started: boolean,
  { eventLoopDelay, leaseValid, database }: Vitals,
): Verdicts {
  const live = eventLoopDelay < LONGEST_DELAY
  const blocked = live ? undefined : `its event loop was blocked for ${eventLoopDelay} ms`
  const problems = [
    IN_STATE[state],
    state === 'running' && !leaseValid ? 'its lease could not be renewed' : undefined,
    state === 'running' && !database ? 'the database does not answer' : undefined,
  ]
  const unready = problems.filter((problem) => problem !== undefined)
  const ready = live && unready.length === 0
  return { live, ready, started, reasons: blocked ? [blocked, ...unready] : unready }
}

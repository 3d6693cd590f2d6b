import type { Instrumentation } from '../instrumentation.ts'
import type { Logger } from '../logger.ts'
import type { Queue } from '../queue.ts'
import type { WorkerOptions } from './options.ts'
import type { Worker } from './worker.ts'

/** What a module that `lockstep work` loads may say about its worker. */
export interface WorkConfiguration
  extends Pick<WorkerOptions, 'middleware' | 'scheduler' | 'splitter' | 'formatError'> {
  /** Gets what the worker logs. Default: JSON lines on stdout, or short text on a terminal. */
  readonly logger?: Logger
  readonly instrumentation?: readonly Instrumentation[]
  /** Called before the worker starts, to listen to its events. */
  onWorker?(worker: Worker): unknown
  /** Called when the worker has stopped, or could not start: to close what `configure` has opened. Gets 5 s. */
  stop?(): unknown
}

/**
 * Exported as `configure` by a module that `lockstep work -r` loads. Called once in each process, before the worker is
 * created. Flags of the command line have precedence.
 */
export type Configure = (about: {
  /** Those that the worker will serve. */
  readonly queues: readonly Queue[]
  /** Of this process among those of `--processes`, from 0. */
  readonly rank: number
}) => WorkConfiguration | undefined | Promise<WorkConfiguration | undefined>

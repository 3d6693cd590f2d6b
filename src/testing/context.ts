import { OptionError } from '../errors.ts'
import type { Batch, TransactionalContext } from '../handler.ts'
import type { JobInfo } from '../job.ts'
import { checkLogger, consoleLogger, type Logger } from '../logger.ts'
import { isPlain, nameOf, rejectUnknownOptions } from '../options.ts'

export interface ContextOptions<Tx> {
  /** What `context.tx` is. */
  readonly tx?: Tx
  /** Details of a job, by id, where they differ from those of one that never ran. */
  readonly jobs?: Readonly<Record<string, Partial<JobInfo>>>
  /** Default: warnings and errors to the console. */
  readonly logger?: Logger
}

/** A context for unit tests of a handler. */
export interface TestContext<Tx> extends TransactionalContext<Tx> {
  /** The error of each id that the handler has passed to `fail`. */
  readonly failed: ReadonlyMap<string, unknown>
  /** Aborts the signal, like a timeout or a stop. */
  abort(reason?: unknown): void
}

/**
 * What a handler gets beside its batch: `await queue.perform(batch, createContext(batch))` runs it without any database.
 * `batch`: its ids and payloads, as the handler gets them.
 * @throws OptionError
 */
export function createContext<Payload, Tx = undefined>(
  batch: Batch<Payload>,
  options: ContextOptions<Tx> = {},
): TestContext<Tx> {
  rejectUnknownOptions(options, ['tx', 'jobs', 'logger'], 'createContext')
  const { tx, jobs = {}, logger = consoleLogger } = options
  checkJobs(batch, jobs)
  checkLogger(logger, 'createContext: logger')
  const abort = new AbortController()
  const failed = new Map<string, unknown>()
  return {
    signal: abort.signal,
    jobs: new Map([...batch].map(([id, payloads]) => [id, { ...infoOf(payloads), ...jobs[id] }])),
    logger,
    tx: tx as Tx,
    failed,
    fail(id, error) {
      if (!batch.has(id)) throw new Error(`context.fail: the batch has no id "${id}"`)
      failed.set(id, error)
    },
    abort: (reason) => abort.abort(reason),
  }
}

function checkJobs(batch: Batch, jobs: ContextOptions<unknown>['jobs']): void {
  if (typeof batch?.has !== 'function')
    throw new OptionError(`createContext: the batch must be a Map of ids to payloads, not ${nameOf(batch)}`)
  for (const [id, payloads] of batch)
    if (!Array.isArray(payloads))
      throw new OptionError(`createContext: the payloads of "${id}" must be a list, not ${nameOf(payloads)}`)
  if (!isPlain(jobs)) throw new OptionError(`createContext: jobs must be an object, not ${nameOf(jobs)}`)
  for (const [id, info] of Object.entries(jobs!)) {
    if (!batch.has(id)) throw new OptionError(`createContext: the batch has no id "${id}"`)
    rejectUnknownOptions(info, Object.keys(infoOf([])), `createContext: jobs["${id}"]`)
  }
}

function infoOf(payloads: readonly unknown[]): JobInfo {
  const now = Date.now()
  return {
    retryCount: -1,
    performIn: new Date(now),
    scores: payloads.map((_, index) => now + index),
    headers: payloads.map(() => null),
    error: null,
    tenant: null,
    crashes: 0,
    fence: 1,
  }
}

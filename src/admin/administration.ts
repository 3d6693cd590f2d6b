import type { Logger } from '../logger.ts'
import { rejectUnknownOptions } from '../options.ts'
import type { Database } from '../postgres/database.ts'
import type { Queue } from '../queue.ts'
import type { AuditEntry } from '../store/audit.ts'
import type { JobAction, JobFilter } from '../store/jobs.ts'
import type { DeadFilter } from '../store/morgue.ts'
import type { ProcessRequest } from '../store/process.ts'
import { type ActorOptions, Audit, type AuditOptions, checkActor, type Deed, listActions } from './audit.ts'
import { type DeleteQueueOptions, deleteQueue } from './delete-queue.ts'
import { act, NAMES } from './jobs.ts'
import { deleteFromMorgue, requeueFromMorgue } from './morgue.ts'
import type { Progression } from './progression.ts'
import { pause, reshard, resume } from './queues.ts'
import type { CreatedToken, NewToken } from './tokens.ts'
import type { ProgressionOptions } from './walk.ts'

type AnyQueue = Queue | string

/** What a person does to jobs, queues and processes, recorded in the audit if that person is named. */
export class Administration {
  readonly #database: Database
  readonly #audit: Audit

  constructor(database: Database, logger: Logger) {
    this.#database = database
    this.#audit = new Audit(database, logger)
  }

  /** Applies `action` to waiting jobs. */
  act(action: JobAction, queue: AnyQueue, filter: JobFilter, options: ProgressionOptions): Progression {
    const work = act(action, this.#database, queue, filter, options)
    return this.#audit.follow({ action: NAMES[action], queue, details: filter, by: options.by }, work)
  }

  requeue(queue: AnyQueue, filter: DeadFilter, options: ProgressionOptions): Progression {
    const work = requeueFromMorgue(this.#database, queue, filter, options)
    return this.#audit.follow({ action: 'requeue', queue, details: filter, by: options.by }, work)
  }

  deleteDead(queue: AnyQueue, filter: DeadFilter, options: ProgressionOptions): Progression {
    const work = deleteFromMorgue(this.#database, queue, filter, options)
    return this.#audit.follow({ action: 'deleteDead', queue, details: filter, by: options.by }, work)
  }

  reshard(queue: AnyQueue, shards: number, options: ProgressionOptions): Progression {
    const work = reshard(this.#database, queue, shards, options)
    return this.#audit.follow({ action: 'reshard', queue, details: { shards }, by: options.by }, work)
  }

  deleteQueue(queue: AnyQueue, options: DeleteQueueOptions): Progression {
    const work = deleteQueue(this.#database, queue, options)
    const { by, withJobs = false } = options
    return this.#audit.follow({ action: 'deleteQueue', queue, details: { withJobs }, by }, work)
  }

  pause(queue: AnyQueue, options: ActorOptions): Promise<void> {
    return this.#do({ action: 'pause', queue, details: {} }, options, () => pause(this.#database, queue))
  }

  resume(queue: AnyQueue, options: ActorOptions): Promise<void> {
    return this.#do({ action: 'resume', queue, details: {} }, options, () => resume(this.#database, queue))
  }

  /** Asks a worker process to be quiet or to stop. Resolves to whether it seems to live. */
  ask(processId: number, request: ProcessRequest, options: ActorOptions): Promise<boolean> {
    const deed = { action: request, queue: null, details: { processId } }
    return this.#do(deed, options, async () => {
      const { ask } = await import('./processes.ts')
      return ask(this.#database, processId, request)
    })
  }

  async createToken(options: NewToken): Promise<CreatedToken> {
    const { checkNewToken, createToken } = await import('./tokens.ts')
    const grant = checkNewToken(options)
    const deed = { action: 'createToken', queue: null, details: grant } as const
    return this.#do(deed, { by: options.by }, () => createToken(this.#database, grant))
  }

  async deleteToken(name: string, options: ActorOptions): Promise<void> {
    const { checkTokenName, deleteToken } = await import('./tokens.ts')
    const deed = { action: 'deleteToken', queue: null, details: { name: checkTokenName(name) } } as const
    return this.#do(deed, options, () => deleteToken(this.#database, name))
  }

  /** What was recorded, the newest first. */
  audit(options: AuditOptions): Promise<AuditEntry[]> {
    return listActions(this.#database, options)
  }

  async #do<T>(deed: Omit<Deed, 'by'>, options: ActorOptions, work: () => Promise<T>): Promise<T> {
    rejectUnknownOptions(options, ['by'], deed.action)
    const { by } = options
    checkActor(by, deed.action)
    return this.#audit.record({ ...deed, by }, work)
  }
}

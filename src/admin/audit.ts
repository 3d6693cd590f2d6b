import { boundText, DatabaseError, LockstepError, OptionError, summaryOf } from '../errors.ts'
import type { Logger } from '../logger.ts'
import { isStorable, rejectUnknownOptions, show, wholeNumber } from '../options.ts'
import type { Database } from '../postgres/database.ts'
import { isQueue, type Queue } from '../queue.ts'
import { type AuditEntry, listAudit, noteBeginning, noteEnd } from '../store/audit.ts'
import { type Progress, Progression } from './progression.ts'

export interface ActorOptions {
  /**
   * Who does this, such as a user name: 1 to 200 characters. The action is then recorded in the audit, and does not begin if
   * that fails. Default: it's not recorded.
   */
  readonly by?: string
}

export interface AuditOptions {
  /** 1 to 1,000. Default 100. */
  readonly limit?: number
  /** Only entries before the one with this id: the `id` of the last one of the page before. */
  readonly before?: number
}

/** What is about to be done. */
export interface Deed {
  readonly action: AuditEntry['action']
  /** Null if it's none of a queue. */
  readonly queue: Queue | string | null
  readonly details: object
  readonly by: string | undefined
}

const DEFAULT_LIMIT = 100
const MAX_LIMIT = 1_000
const MAX_ACTOR = 200
const MAX_QUEUE = 511
const MAX_ERROR = 2_000
/** Of the details. An action may name thousands of ids. */
const [MOST_VALUES, LONGEST_TEXT] = [20, 1_024]

/** @throws OptionError */
export function checkActor(by: unknown, what: string): void {
  if (by === undefined) return
  const isText = typeof by === 'string' && isStorable(by)
  if (!isText || by.trim() === '' || by.length > MAX_ACTOR)
    throw new OptionError(`${what}: by must be text of 1 to ${MAX_ACTOR} characters, not ${show(by)}`)
}

/**
 * Records what people do. An entry is written before its action begins, so one without an end was interrupted, or still runs.
 *
 * An action that can't be recorded is not begun: whoever names an actor relies on the record. Once it's done, it is a success
 * even if its end can't be recorded: the entry then shows that it began.
 */
export class Audit {
  readonly #database: Database
  readonly #logger: Logger

  constructor(database: Database, logger: Logger) {
    this.#database = database
    this.#logger = logger
  }

  /** Records long work, from its first step to its last, or to the end of whoever follows it. */
  follow(deed: Deed, work: Progression): Progression {
    return deed.by === undefined ? work : new Progression(this.#steps(deed, work))
  }

  /** Records work that counts nothing. */
  async record<T>(deed: Deed, work: () => Promise<T>): Promise<T> {
    if (deed.by === undefined) return work()
    const id = await this.#begin(deed)
    let error: string | null = null
    try {
      return await work()
    } catch (thrown) {
      error = reasonOf(thrown)
      throw thrown
    } finally {
      await this.#end(deed, id, null, error)
    }
  }

  async *#steps(deed: Deed, work: Progression): AsyncGenerator<Progress, void> {
    const id = await this.#begin(deed)
    let done = 0
    let error: string | null = 'stopped by the caller'
    try {
      for await (const step of work) {
        done = step.done
        yield step
      }
      error = null
    } catch (thrown) {
      error = reasonOf(thrown)
      throw thrown
    } finally {
      await this.#end(deed, id, done, error)
    }
  }

  async #begin({ action, queue, details, by }: Deed): Promise<number> {
    const name = queue === null ? null : boundText(isQueue(queue) ? queue.name : String(queue), MAX_QUEUE)
    const entry = { by: by!, action, queue: name, details: JSON.stringify(bounded(details), withNumbers) }
    return noteBeginning(this.#database, entry).catch((error) => {
      const message = `nothing was done, since it could not be recorded in the audit: ${summaryOf(error)}`
      throw new DatabaseError((error as LockstepError).code, message, { cause: error })
    })
  }

  async #end({ action }: Deed, id: number, affected: number | null, error: string | null): Promise<void> {
    await noteEnd(this.#database, id, affected, error).catch((failure: Error) =>
      this.#logger.warn(
        { error: failure.message, action, audit: id },
        'the end of an action could not be recorded: in the audit it has only begun',
      ),
    )
  }
}

/** The newest entries first. */
export async function listActions(database: Database, options: AuditOptions): Promise<AuditEntry[]> {
  rejectUnknownOptions(options, ['limit', 'before'], 'audit')
  const { limit = DEFAULT_LIMIT, before } = options
  if (before !== undefined) wholeNumber(before, 1, Number.MAX_SAFE_INTEGER, 'audit: before')
  return listAudit(database, wholeNumber(limit, 1, MAX_LIMIT, 'audit: limit'), before)
}

function reasonOf(thrown: unknown): string {
  const code = thrown instanceof LockstepError ? `${thrown.code}: ` : ''
  return boundText(`${code}${summaryOf(thrown)}`, MAX_ERROR)
}

/** What of the details is stored. */
function bounded(details: object): object {
  const leftOut: Record<string, number> = {}
  const kept = Object.entries(details).map(([key, value]) => {
    if (!Array.isArray(value) || value.length <= MOST_VALUES) return [key, value]
    leftOut[key] = value.length - MOST_VALUES
    return [key, value.slice(0, MOST_VALUES)]
  })
  return { ...Object.fromEntries(kept), ...(Object.keys(leftOut).length > 0 && { leftOut }) }
}

/** JSON has no infinity, and a range may have it. */
function withNumbers(_: string, value: unknown): unknown {
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
  return typeof value === 'string' && value.length > LONGEST_TEXT
    ? `${value.slice(0, LONGEST_TEXT).toWellFormed()}...`
    : value
}

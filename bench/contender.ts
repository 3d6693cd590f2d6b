import type pg from 'pg'

/** The payload of a job: the `seq`th update of the thing that `key` names. */
export interface Update {
  readonly key: string
  readonly seq: number
}

export interface Push extends Update {
  /** ms since 1970 from which on it may be performed; default: at once. */
  readonly due?: number
  /** Makes the payload larger. */
  readonly padding?: string
}

/**
 * Sees what a handler gets, in order, before and after the handler performs, as the same array. The handler awaits
 * `starts`, and fails if that throws.
 */
export interface Watcher {
  starts(updates: readonly Update[]): void | Promise<void>
  ends(updates: readonly Update[]): void
}

/** Whether updates of one key must be performed one after the other, in the order they came. */
export type Ordering = 'any' | 'per key'

export interface Setting {
  readonly connectionString: string
  readonly redisUrl: string | undefined
  readonly configuration: Configuration
  readonly ordering: Ordering
  /** Jobs at a time. */
  readonly concurrency: number
  /** Most connections of the pool that enqueues. */
  readonly connections: number
  /**
   * Seconds until a failed job is tried again. A contender without such a setting tries it once. Default: the
   * contender's own.
   */
  readonly retryIn: number | undefined
  /** Only for ours, in addition to the configuration. */
  readonly tuning: Tuning
}

/** Without any settings, or as the contender's documentation advises for throughput. */
export type Configuration = 'default' | 'best'

/** Differences from our defaults. */
export interface Tuning {
  readonly shards?: number
  readonly batchSize?: number
}

/** A queue under test, in its own database. */
export interface Contender {
  /** Describes its configuration in a few words. */
  readonly told: string
  /** Creates what it needs, once per database. */
  setUp(): Promise<void>
  /** Pushes all of them in one call. */
  enqueue(pushes: readonly Push[]): Promise<unknown>
  /** Pushes in a transaction of the caller. */
  enqueueIn?(client: pg.ClientBase, push: Push): Promise<unknown>
  /** Resolves when its worker is ready. */
  work(watcher: Watcher): Promise<void>
  /** Ends the worker, if there is one, and all connections. */
  close(): Promise<void>
}

export type Open = (setting: Setting) => Contender | Promise<Contender>

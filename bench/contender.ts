import type pg from 'pg'

/** The `seq`th update of what `key` names: the payload of a job. */
export interface Update {
  readonly key: string
  readonly seq: number
}

export interface Push extends Update {
  /** ms since 1970 from which on it may be worked on; default: at once. */
  readonly due?: number
}

/**
 * Told of what a handler gets, in its order, before and after it performs: with the same array. It performs `starts`, and fails
 * where that throws.
 */
export interface Watcher {
  starts(updates: readonly Update[]): void | Promise<void>
  ends(updates: readonly Update[]): void
}

/** Whether updates of one key have to be worked on one after the other, in the order they came. */
export type Ordering = 'any' | 'per key'

export interface Setting {
  readonly connectionString: string
  readonly redisUrl: string | undefined
  readonly configuration: Configuration
  readonly ordering: Ordering
  /** Jobs at a time. */
  readonly concurrency: number
  /** Of the pool that enqueues, at most. */
  readonly connections: number
  /** Seconds until a job that failed is tried again; who can't be told so tries it once. Default: as it comes. */
  readonly retryIn: number | undefined
  /** Of ours, besides what the configuration is. */
  readonly tuning: Tuning
}

/** As it is without any setting, or as its documentation advises for throughput. */
export type Configuration = 'default' | 'best'

/** What differs from our defaults. */
export interface Tuning {
  readonly shards?: number
  readonly batchSize?: number
}

/** A queue under test, on a database of its own. */
export interface Contender {
  /** What its configuration is, in a few words. */
  readonly told: string
  /** Creates what it needs. Once a database. */
  setUp(): Promise<void>
  /** In one call, however many there are. */
  enqueue(pushes: readonly Push[]): Promise<unknown>
  /** In a transaction of the caller's. */
  enqueueIn?(client: pg.ClientBase, push: Push): Promise<unknown>
  /** Resolves when its worker is ready. */
  work(watcher: Watcher): Promise<void>
  /** Ends the worker, if there is one, and all connections. */
  close(): Promise<void>
}

export type Open = (setting: Setting) => Contender | Promise<Contender>

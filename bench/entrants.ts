import type { Configuration } from './contender.ts'

export const LOCKSTEP = 'pg-lockstep'
/** The same row changes as SQL, without any rule of a queue. */
export const BARE = 'bare SQL'
export const POSTGRES_PEERS = ['graphile-worker', 'pg-boss', 'bullmq'] as const
/** With Redis' defaults, and with every write on disk before it is acknowledged, as in Postgres. */
export const REDIS_PEERS = ['bullmq on redis', 'bullmq on redis, fsync'] as const

export type Name =
  | typeof LOCKSTEP
  | typeof BARE
  | (typeof POSTGRES_PEERS)[number]
  | (typeof REDIS_PEERS)[number]

/** A participant of a case and its configuration. */
export interface Entrant {
  readonly name: Name
  readonly configuration: Configuration
}

export function standard(names: readonly Name[]): Entrant[] {
  return names.map((name) => ({ name, configuration: 'default' }))
}

export function best(names: readonly Name[]): Entrant[] {
  return names.map((name) => ({ name, configuration: 'best' }))
}

/** Contenders that are notified of a push. pg-boss is only in its best configuration. */
export const NOTIFIED: readonly Entrant[] = [
  ...standard([LOCKSTEP, 'graphile-worker', 'bullmq']),
  ...best(['pg-boss']),
]

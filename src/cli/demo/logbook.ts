import { writeSync } from 'node:fs'
import type { Update } from './feed.ts'

/**
 * What the processes of the demo write down as it happens, for a judge who doesn't trust the database.
 * `at` is in ms of the clock that all processes of a machine share, `committedAt` in ms of the server's.
 */
export type Entry =
  | { readonly kind: 'ready' }
  /** Committed; the server's clock was read after that. */
  | { readonly kind: 'sent'; readonly updates: readonly Update[]; readonly committedAt: number }
  | { readonly kind: 'rolledBack'; readonly updates: readonly Update[] }
  | { readonly kind: 'begin'; readonly run: string; readonly orders: readonly string[]; readonly at: number }
  | { readonly kind: 'end'; readonly run: string; readonly at: number }
  /** ms from the time an order was due until its handler had begun. */
  | { readonly kind: 'pickUp'; readonly wait: number; readonly rescued: boolean }
  | { readonly kind: 'deadlock' }
  | { readonly kind: 'warning'; readonly message: string }

/** The pipe that a process of the demo is started with. */
export const LOGBOOK = 3

/** The kernel has it when this returns: SIGKILL doesn't take it back. */
export function write(entry: Entry): void {
  writeSync(LOGBOOK, `${JSON.stringify(entry)}\n`)
}

/** ms of a clock that never steps and that every process of this machine reads alike. */
export function sharedClock(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1e3 + nanoseconds / 1e6
}
